//! The front over a real socket and a real log: bytes in, bytes out.

mod admin;
mod broker;
mod consuming;
mod registering;
mod sending;
