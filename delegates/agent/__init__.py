"""The program in a customer's account: asks a manager for tasks and runs them. It knows no framework."""

VERSION = "1.0.0"
