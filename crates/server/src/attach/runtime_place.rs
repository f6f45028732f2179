//! The directory of the records of connections: `$WEFT_RUNTIME_DIR`, or `$XDG_RUNTIME_DIR/weft`,
//! `/run/weft` for root, `%LOCALAPPDATA%\weft\run`, or a directory in the one for temporary files,
//! with the user's name, or number if the user has no name.

use crate::private_files::make_private;
use std::env;
use std::path::PathBuf;

/// The variable that names the directory.
pub const DIRECTORY: &str = "WEFT_RUNTIME_DIR";

/// The directory for root, on systems that have one.
pub const OF_SYSTEM: &str = "/run/weft";

/// The present user's directory, whether it is there or not.
pub(super) fn place() -> PathBuf {
    let of = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let own = || {
        let user = of("USER")
            .or_else(|| of("USERNAME"))
            .and_then(|user| Some(user.file_name()?.to_string_lossy().into_owned()));
        env::temp_dir().join(format!("weft-{}", user.unwrap_or_else(number_of_user)))
    };
    of(DIRECTORY)
        .or_else(|| of("XDG_RUNTIME_DIR").map(|dir| dir.join("weft")))
        .or_else(|| of("LOCALAPPDATA").map(|dir| dir.join("weft").join("run")))
        .or_else(system_place)
        .unwrap_or_else(own)
}

/// What tells users apart that have no name.
#[cfg(unix)]
fn number_of_user() -> String {
    rustix::process::getuid().as_raw().to_string()
}

#[cfg(not(unix))]
fn number_of_user() -> String {
    String::new()
}

fn system_place() -> Option<PathBuf> {
    let path = PathBuf::from(OF_SYSTEM);
    (cfg!(unix) && make_private(&path).is_ok()).then_some(path)
}
