"""Rules of AWS that stand in no model: what ECS refuses although every shape is right (AWS.md A.8, C.3)."""
