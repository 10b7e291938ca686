# What the gates run. `just verify` writes nothing.

verify:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps
    cargo test --workspace

fix:
    cargo fmt --all
    cargo clippy --workspace --all-targets --fix --allow-dirty

# 100 kills under load; another SEED is another run.
crash SEED="1":
    cargo run --release -p twinmq-compat-tests -- crash --rounds 100 --seed {{SEED}}

flights:
    cargo run --release -p twinmq-compat-tests -- flights

# Every fuzz target for SECONDS each; needs nightly and cargo-fuzz.
fuzz SECONDS="60":
    .ci/fuzz {{SECONDS}}
