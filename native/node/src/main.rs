//! The TwinMQ broker process.
fn main() {}
