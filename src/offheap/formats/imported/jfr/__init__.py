"""JFR recordings as profiles: what they say of native memory."""
