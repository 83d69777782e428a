"""Voices behind a server: OpenAI's API, an API of our own with word times, Wyoming, and a page for people."""
