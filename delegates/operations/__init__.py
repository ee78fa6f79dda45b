"""Operations on delegates; page, API, admin and Celery call the same ones."""
