//! What `weft --version` says; `-V` says the first line alone.

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
