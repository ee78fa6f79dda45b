"""Operations on pipelines."""
