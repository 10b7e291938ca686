//! The two-way rule for topic and group names.
