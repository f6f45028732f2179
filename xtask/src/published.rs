//! The crates for a registry.

use std::process::Command;

use crate::sh;

/// The crate that programs of others use, with all of ours that it is made of, each behind those
/// that it uses: what a registry gets.
pub const PUBLISHED: [&str; 11] = [
    "weft-base",
    "weft-proto",
    "weft-io",
    "weft-tls",
    "weft-block",
    "weft-ceph",
    "weft-group",
    "weft-connection",
    "weft-initiator",
    "weft-target",
    "weft-endpoint",
];

/// Packs [`PUBLISHED`] as a registry gets them.
pub fn packing() -> Command {
    let mut command = sh::cargo("package");
    command.args(["--locked", "--offline", "--allow-dirty"]);
    command.args(PUBLISHED.iter().flat_map(|name| ["--package", name]));
    command
}
