//! Signatures of programs for Windows (Authenticode), by osslsigncode and a key that the caller
//! names.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use xtask::sh::{self, Missing};

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
