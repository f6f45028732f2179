//! Builds OpenSSL and links it into the program, with the feature `vendored-openssl` only.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "vendored-openssl")]
    openssl_src::Build::new().build().print_cargo_metadata();
}
