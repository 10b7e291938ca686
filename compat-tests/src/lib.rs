//! Real clients, in their own languages, against a real `twinmq` process on free ports.
//!
//! [`Node`] starts, stops and kills the broker; [`clients`] prepares the client programs under
//! `target/compat` and runs them; [`lines`] is the format in which records go to them and come back,
//! so that everything is judged here, in one place. [`topic`] has the steps that scenarios are made of,
//! [`scenarios`] those that every client goes through. Nothing of this crate is linked into the product.

pub mod clients;
pub mod crash;
pub mod flights;
pub mod lines;
pub mod node;
pub mod sample;
pub mod scenarios;
pub mod suite;
pub mod topic;

pub use node::Node;

use std::path::PathBuf;

/// The root of the checkout.
#[must_use]
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).unwrap_or(here)
}

/// Where client programs, their packages and the tests' data live: `target/compat`.
#[must_use]
pub fn work() -> PathBuf {
    target().join("compat")
}

/// Cargo's target directory, found from the running executable.
#[must_use]
pub fn target() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    // <target>/<profile>/deps/<test> or <target>/<profile>/<binary>
    let mut at = exe.as_path();
    while let Some(parent) = at.parent() {
        if parent.join("CACHEDIR.TAG").exists() {
            return parent.to_owned();
        }
        at = parent;
    }
    root().join("target")
}
