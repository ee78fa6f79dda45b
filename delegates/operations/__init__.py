"""Operations on delegates, shared by pages, API, admin and Celery."""
