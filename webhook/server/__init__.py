"""The webhook's server: Flask on gunicorn, TLS, hot reload, health, metrics and logs."""
