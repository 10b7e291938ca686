//! Batch to messages, messages to batch.
