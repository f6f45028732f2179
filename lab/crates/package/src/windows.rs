//! The package for Windows: a zip with a program that needs nothing but Windows.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use lab_windows::{
    cache::Cache,
    setup::prepare,
    toolchain::{TARGET, built, cargo},
};
use xtask::{
    VERSION,
    built::FULL,
    sh::{self, Missing},
};

use super::{archive, notices};

/// All of it, and OpenSSL in the program, so that TLS needs no other file.
pub(super) const FEATURES: [&str; 2] = [FULL, "vendored-openssl"];

/// The profile of packages.
const PROFILE: &str = "dist";

/// Options of `cargo xtask package windows`.
#[derive(Args)]
pub struct WindowsArgs {
    /// A program that is built already, without OpenSSL in it, instead of one of this tree
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Directory of the package [default: target/package]
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
    #[command(flatten)]
    signing: SigningArgs,
}

/// Builds the program and packs it.
pub fn run(args: &WindowsArgs) -> Result<()> {
    // Before a build of many minutes.
    args.signing.check()?;
    let cache = Cache::open()?;
    prepare(&cache)?;
    let out = args.out.clone().unwrap_or_else(|| sh::target_dir().join("package"));
    let archive = match &args.program {
        Some(program) => pack(&cache, program, &[], &args.signing, &out)?,
        None => pack(&cache, &build(&cache)?, &FEATURES, &args.signing, &out)?,
    };
    print!("{}", sh::output(Command::new("sha256sum").arg(&archive))?);
    Ok(())
}

/// The program of this tree.
fn build(cache: &Cache) -> Result<PathBuf> {
    lab_host::require(&["perl", "make"])?;
    let mut build = cargo(cache, "build")?;
    build.args(["--locked", "--package=weft", "--bin=weft", "--profile", PROFILE]);
    sh::run(build.arg(format!("--features={}", FEATURES.join(","))))?;
    Ok(built(PROFILE))
}

/// Packs a program that was built with some features; where the zip is.
fn pack(
    cache: &Cache,
    program: &Path,
    features: &[&str],
    signing: &SigningArgs,
    out: &Path,
) -> Result<PathBuf> {
    let name = format!("weft-{VERSION}-windows-x86_64");
    let directory = out.join(name);
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&directory)?;
    let packed = directory.join("weft.exe");
    fs::copy(program, &packed).with_context(|| format!("no {}", program.display()))?;
    needs_only_windows(&packed)?;
    if !signing.sign(&packed)? {
        eprintln!("weft.exe is not signed: name a key with --sign-key to have that done");
    }
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(sh::root().join(licence), directory.join(licence))?;
    }
    let doc = Path::new("/usr/share/doc");
    let rust = cache.path("rust/usr/share/doc/rust-web-src/copyright");
    let others = [
        ("the standard library of Rust", rust.as_path()),
        ("the C library and start-up code of MinGW-w64", &doc.join("mingw-w64-common/copyright")),
        ("the runtime library of GCC", &doc.join("gcc-mingw-w64-x86-64/copyright")),
    ];
    let text = notices::of_program(&notices::metadata(TARGET, features)?, &others)?;
    fs::write(directory.join("LICENCES.txt"), text.replace('\n', "\r\n"))?;
    archive::write_sums(&directory)?;
    archive::zip(&directory)
}

/// Libraries that the compiler brings are on no other machine.
fn needs_only_windows(program: &Path) -> Result<()> {
    let said = sh::output(Command::new("x86_64-w64-mingw32-objdump").arg("-p").arg(program))?;
    let foreign: Vec<&str> = imported(&said).filter(|name| name.starts_with("lib")).collect();
    ensure!(
        foreign.is_empty(),
        "weft.exe needs {}, which Windows does not have",
        foreign.join(", ")
    );
    Ok(())
}

/// The libraries that a program imports, by what objdump says of it.
fn imported(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter_map(|line| line.trim().strip_prefix("DLL Name: "))
}

// Signatures of programs for Windows (Authenticode), by osslsigncode and a key that the caller
// names.

/// The tool, which is also the name of its package.
const TOOL: &str = "osslsigncode";

/// With what a program is signed.
#[derive(Args, Default)]
pub struct SigningArgs {
    /// Sign weft.exe with this key: a file in PEM form along with --sign-cert, or a PKCS #12 file
    /// (.p12, .pfx) that contains the certificate
    #[arg(long, value_name = "FILE")]
    pub sign_key: Option<PathBuf>,
    /// Certificate of the key, with those between it and its root
    #[arg(long, value_name = "FILE", requires = "sign_key")]
    pub sign_cert: Option<PathBuf>,
    /// File with the password of the key
    #[arg(long, value_name = "FILE", requires = "sign_key")]
    pub sign_password_file: Option<PathBuf>,
    /// Have an authority confirm the time, so that the signature outlives its certificate (RFC 3161)
    #[arg(long, value_name = "URL", requires = "sign_key")]
    pub timestamp_url: Option<String>,
}

impl SigningArgs {
    /// Returns whether a signature is requested, and checks that the options fit together.
    pub fn check(&self) -> Result<bool> {
        let Some(key) = &self.sign_key else { return Ok(false) };
        let files = [Some(key), self.sign_cert.as_ref(), self.sign_password_file.as_ref()];
        for file in files.into_iter().flatten() {
            ensure!(file.is_file(), "{} is not a file: name an existing one", file.display());
        }
        ensure!(
            is_pkcs12(key) != self.sign_cert.is_some(),
            "a key in PEM form (--sign-key) needs its certificate (--sign-cert), and a PKCS #12 file (.p12, .pfx) has one in it"
        );
        Ok(true)
    }

    /// Signs a program in its place, if that is asked for; whether it is.
    pub fn sign(&self, program: &Path) -> Result<bool> {
        if !self.check()? {
            return Ok(false);
        }
        if !sh::have(TOOL) {
            lab_host::require(&[TOOL]).map_err(|e| {
                Missing(format!("--sign-key needs {TOOL}, which cannot be installed here: {e:#}"))
            })?;
        }
        let signed = program.with_extension("signed");
        if signed.exists() {
            fs::remove_file(&signed)?;
        }
        let said = sh::output(&mut self.command(program, &signed));
        said.with_context(|| format!("{} was not signed", program.display()))?;
        fs::rename(&signed, program)?;
        Ok(true)
    }

    fn command(&self, program: &Path, signed: &Path) -> Command {
        let mut command = Command::new(TOOL);
        command.args(["sign", "-h", "sha256", "-n", "weft"]);
        let key = self.sign_key.as_deref().unwrap_or(Path::new(""));
        command.arg(if is_pkcs12(key) { "-pkcs12" } else { "-key" }).arg(key);
        if let Some(certificate) = &self.sign_cert {
            command.arg("-certs").arg(certificate);
        }
        if let Some(password) = &self.sign_password_file {
            command.arg("-readpass").arg(password);
        }
        if let Some(url) = &self.timestamp_url {
            command.args(["-ts", url]);
        }
        command.arg("-in").arg(program).arg("-out").arg(signed);
        command
    }
}

fn is_pkcs12(key: &Path) -> bool {
    let kind = key.extension().map(|kind| kind.to_string_lossy().to_lowercase());
    kind.is_some_and(|kind| ["p12", "pfx"].contains(&kind.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_read() {
        let said = "a\n\tDLL Name: KERNEL32.dll\n\tvma:  Hint\n\tDLL Name: libgcc_s_seh-1.dll\n";
        assert_eq!(imported(said).collect::<Vec<_>>(), ["KERNEL32.dll", "libgcc_s_seh-1.dll"]);
    }

    #[test]
    fn a_key_has_its_certificate_beside_or_inside() {
        let scratch = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = scratch.path().join(name);
            fs::write(&path, "").unwrap();
            Some(path)
        };
        let of =
            |sign_key, sign_cert| SigningArgs { sign_key, sign_cert, ..SigningArgs::default() };
        assert!(!of(None, None).check().unwrap());
        assert!(of(file("key.pem"), file("cert.pem")).check().unwrap());
        assert!(of(file("both.PFX"), None).check().unwrap());
        for wrong in [
            of(file("key.pem"), None),
            of(file("both.p12"), file("cert.pem")),
            of(Some(scratch.path().join("none.p12")), None),
        ] {
            assert!(wrong.check().is_err());
        }
    }
}
