//! The text of `weft --version`; `-V` prints the first line alone.

/// Where OpenSSL comes from.
#[cfg(feature = "vendored-openssl")]
macro_rules! openssl {
    () => {
        "in the program"
    };
}
#[cfg(not(feature = "vendored-openssl"))]
macro_rules! openssl {
    () => {
        "the system's, loaded when it is used"
    };
}

/// The commit that it was built from, and whether files differed from it. Programs for developers
/// do not have it: they would be linked again after each commit.
pub fn commit() -> Option<&'static str> {
    Some(env!("WEFT_COMMIT")).filter(|commit| *commit != "not recorded")
}

/// Version, and what the program was built of.
pub const LONG: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit: ",
    env!("WEFT_COMMIT"),
    "\nprofile: ",
    env!("WEFT_PROFILE"),
    "\nOpenSSL: ",
    openssl!(),
);
