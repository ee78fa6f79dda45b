"""Operations of the inventory."""
