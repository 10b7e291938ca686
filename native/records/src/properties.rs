//! RocketMQ's name/value property text.
