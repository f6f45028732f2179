//! The shared libraries of OpenSSL on this machine.

use libloading::Library as File;

/// Both libraries.
pub(super) struct Files {
    pub(super) ssl: File,
    pub(super) crypto: File,
}

/// Names under which systems have both libraries: libcrypto, which the other one needs, and libssl.
#[cfg(all(unix, not(target_vendor = "apple")))]
const NAMES: &[(&str, &str)] = &[("libcrypto.so.3", "libssl.so.3")];
#[cfg(target_vendor = "apple")]
const NAMES: &[(&str, &str)] = &[
    ("libcrypto.3.dylib", "libssl.3.dylib"),
    (
        "/opt/homebrew/opt/openssl@3/lib/libcrypto.3.dylib",
        "/opt/homebrew/opt/openssl@3/lib/libssl.3.dylib",
    ),
    (
        "/usr/local/opt/openssl@3/lib/libcrypto.3.dylib",
        "/usr/local/opt/openssl@3/lib/libssl.3.dylib",
    ),
];
#[cfg(all(windows, target_arch = "x86_64"))]
const NAMES: &[(&str, &str)] = &[("libcrypto-3-x64.dll", "libssl-3-x64.dll")];
#[cfg(all(windows, target_arch = "aarch64"))]
const NAMES: &[(&str, &str)] = &[("libcrypto-3-arm64.dll", "libssl-3-arm64.dll")];
#[cfg(not(any(unix, all(windows, any(target_arch = "x86_64", target_arch = "aarch64")))))]
const NAMES: &[(&str, &str)] = &[("libcrypto-3.dll", "libssl-3.dll")];

impl Files {
    /// Loads them by the first of their names that the system knows; the error is what it says of
    /// the first.
    pub(super) fn load() -> Result<Self, String> {
        let mut why = String::new();
        for (crypto, ssl) in NAMES {
            let files = file(crypto).and_then(|crypto| Ok(Self { ssl: file(ssl)?, crypto }));
            match files {
                Ok(files) => return Ok(files),
                Err(e) if why.is_empty() => why = e,
                Err(_) => {}
            }
        }
        Err(why)
    }

    /// Keeps them loaded as long as the process lives.
    pub(super) fn keep(self) {
        core::mem::forget(self);
    }
}

#[cfg(not(windows))]
fn file(name: &str) -> Result<File, String> {
    // SAFETY: the initialisers of these libraries have no requirements.
    unsafe { File::new(name) }.map_err(|e| e.to_string())
}

/// The directories of the program, of the system and of `PATH`, in this order. Windows by itself
/// would search the current directory before those of `PATH`, and whoever can write there would
/// have their code run.
#[cfg(windows)]
fn file(name: &str) -> Result<File, String> {
    use core::error::Error;
    use libloading::os::windows::{
        LOAD_LIBRARY_SEARCH_DEFAULT_DIRS, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR, Library,
    };
    // SAFETY: the initialisers of these libraries have no requirements.
    let known = unsafe { Library::load_with_flags(name, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS) };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let listed = std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|file| file.is_absolute() && file.is_file());
    let loaded = match (known, listed) {
        (Err(_), Some(file)) => {
            let flags = LOAD_LIBRARY_SEARCH_DEFAULT_DIRS | LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR;
            // SAFETY: as above.
            unsafe { Library::load_with_flags(file, flags) }
        }
        (known, _) => known,
    };
    // The error itself names the function that failed; its source is what the system says.
    loaded.map(File::from).map_err(|e| {
        format!("{name}: {}", e.source().map_or_else(|| e.to_string(), ToString::to_string))
    })
}
