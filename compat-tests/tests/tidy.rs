//! The rules of the house that a machine can check: which crate may know which, which package has one
//! door, names, lengths.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// crate folder -> crates of ours that it may know. An arrow not here is a decision of its own.
const ARROWS: &[(&str, &[&str])] = &[
    ("metrics", &[]),
    ("store", &["twinmq-metrics"]),
    ("native/records", &[]),
    (
        "native/core",
        &["twinmq-metrics", "twinmq-records", "twinmq-store"],
    ),
    ("native/remoting", &["twinmq-metrics"]),
    (
        "native/broker",
        &[
            "twinmq-core",
            "twinmq-metrics",
            "twinmq-records",
            "twinmq-remoting",
            "twinmq-store",
        ],
    ),
    (
        "kafka_adapter",
        &[
            "twinmq-core",
            "twinmq-metrics",
            "twinmq-records",
            "twinmq-store",
        ],
    ),
    ("nameserver", &["twinmq-metrics", "twinmq-remoting"]),
    (
        "native/node",
        &[
            "twinmq-core",
            "twinmq-kafka",
            "twinmq-metrics",
            "twinmq-nameserver",
            "twinmq-native",
            "twinmq-records",
            "twinmq-remoting",
            "twinmq-store",
        ],
    ),
    ("compat-tests", &[]),
];

/// Words that no type or file name may be made of.
const BANNED: &[&str] = &[
    "Manager",
    "Service",
    "Processor",
    "Helper",
    "Util",
    "Common",
    "Impl",
    "Context",
];

fn root() -> PathBuf {
    twinmq_compat_tests::root()
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every source file of the crates, with its text.
fn sources() -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for (folder, _) in ARROWS {
        walk(&root().join(folder).join("src"), &mut found);
    }
    found
}

fn walk(dir: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for entry in std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
    {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.insert(path.clone(), read(&path));
        }
    }
}

#[test]
fn arrows_point_down_only() {
    for (folder, allowed) in ARROWS {
        let manifest = read(root().join(folder).join("Cargo.toml"));
        let dependencies = manifest
            .split("[dev-dependencies]")
            .next()
            .unwrap_or_default();
        for line in dependencies
            .lines()
            .filter(|line| line.starts_with("twinmq-"))
        {
            let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
            assert!(allowed.contains(&name), "{folder} must not know {name}");
        }
    }
}

#[test]
fn packages_have_one_door() {
    let doors: &[(&str, &[&str])] = &[
        (
            "kafka_protocol",
            &["kafka_adapter/", "native/records/", "compat-tests/"],
        ),
        ("memmap2", &["store/src/disk/map.rs"]),
        ("toml::", &["native/node/"]),
        ("std::env::var(", &["native/node/"]),
    ];
    for (path, text) in sources() {
        let shown = path
            .strip_prefix(root())
            .expect("below the root")
            .display()
            .to_string();
        for (package, places) in doors {
            let uses = text
                .lines()
                .any(|line| line.contains(package) && !line.trim_start().starts_with("//"));
            assert!(
                !uses || places.iter().any(|place| shown.starts_with(place)),
                "{shown} uses {package}"
            );
        }
        let unsafe_code = text.contains("unsafe {") || text.contains("unsafe impl");
        assert!(
            !unsafe_code || shown == "store/src/disk/map.rs",
            "{shown} has unsafe code"
        );
    }
}

#[test]
fn names_are_nouns_of_the_trade() {
    for (path, text) in sources() {
        let file = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .to_lowercase();
        for word in BANNED {
            let low = word.to_lowercase();
            assert!(
                !file.split('_').any(|part| part == low),
                "{}: banned file name",
                path.display()
            );
            for line in text.lines() {
                let Some(at) = ["struct ", "enum ", "trait ", "type "]
                    .iter()
                    .find_map(|kind| {
                        line.trim_start()
                            .trim_start_matches("pub ")
                            .trim_start_matches("pub(crate) ")
                            .strip_prefix(kind)
                    })
                else {
                    continue;
                };
                let name: String = at.chars().take_while(|c| c.is_alphanumeric()).collect();
                assert!(!name.ends_with(word), "{}: {name}", path.display());
            }
        }
    }
}

#[test]
fn every_file_says_on_top_what_it_is() {
    for (path, text) in sources() {
        assert!(
            text.starts_with("//!"),
            "{} does not open with //!",
            path.display()
        );
        for word in ["TODO", "FIXME", "XXX:", "HACK"] {
            assert!(!text.contains(word), "{}: leftover {word}", path.display());
        }
        assert!(
            !text.contains("unimplemented!("),
            "{}: unimplemented",
            path.display()
        );
    }
}

#[test]
fn files_are_short() {
    let mut long = Vec::new();
    for (path, text) in sources() {
        let stem = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if stem == "tests" || stem.ends_with("_tests") {
            continue;
        }
        let code = text
            .split("#[cfg(test)]\nmod tests")
            .next()
            .unwrap_or_default()
            .lines()
            .count();
        if code > 700 {
            long.push(format!("{} has {code} lines", path.display()));
        }
    }
    assert!(
        long.is_empty(),
        "files above the hard limit of 700 lines without tests:\n{}",
        long.join("\n")
    );
}
