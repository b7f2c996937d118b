"""The second process: one at a time renews the certificates and keeps the webhook configurations as the policies need them."""
