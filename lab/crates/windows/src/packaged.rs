//! A package of the Windows build, signed with a key that is thrown away: all files are there, have
//! the sums that are said, and the program in it runs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use lab_windows::{cache::Cache, wine};
use xtask::{VERSION, sh};

/// What is in a package.
const FILES: [&str; 5] =
    ["LICENCES.txt", "LICENSE-APACHE", "LICENSE-MIT", "SHA256SUMS", "weft.exe"];

/// Packs a program twice, and looks into the packages.
pub(super) fn run(cache: &Cache, program: &Path, scratch: &Path) -> Result<()> {
    lab_host::require(&["openssl"])?;
    let bare = pack(program, &[], &scratch.join("package"))?;
    let again = pack(program, &[], &scratch.join("package-again"))?;
    ensure!(fs::read(&bare)? == fs::read(again)?, "two packages of one program differ");

    let (key, certificate) = throw_away_key(scratch)?;
    let signing = ["--sign-key".as_ref(), key.as_path(), "--sign-cert".as_ref(), &certificate];
    let archive = pack(program, &signing, &scratch.join("signed"))?;
    let unpacked = scratch.join("unpacked");
    sh::run(Command::new("unzip").arg("-q").arg(&archive).arg("-d").arg(&unpacked))?;
    let directory = unpacked.join(archive.file_stem().context("a package has a name")?);
    let mut names = Vec::new();
    for entry in fs::read_dir(&directory)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    ensure!(names == FILES, "the package has {}", names.join(", "));
    let check = ["--check", "--strict", "--quiet", "SHA256SUMS"];
    sh::run(Command::new("sha256sum").args(check).current_dir(&directory))?;
    let packed = directory.join("weft.exe");
    verify(&packed, &certificate)?;
    ensure!(verify(program, &certificate).is_err(), "a program without a signature has one");
    let licences = fs::read_to_string(directory.join("LICENCES.txt"))?;
    for part in ["windows-service", "the standard library of Rust"] {
        ensure!(licences.contains(part), "the licences do not name {part}");
    }
    let said = sh::output(wine::program(cache, &packed).arg("--version"))?;
    ensure!(said.contains(VERSION), "the packed program says {said}");
    Ok(())
}

/// Packs a program with more options, and returns where the zip is.
fn pack(program: &Path, options: &[&Path], out: &Path) -> Result<PathBuf> {
    let mut package = sh::chore(&["package", "windows", "--program"])?;
    let sums = sh::output(package.arg(program).arg("--out").arg(out).args(options))?;
    let (_, archive) = sums.trim().split_once("  ").context("a package has a sum")?;
    Ok(archive.into())
}

/// Checks the signature of a program against the certificate of a key.
fn verify(program: &Path, certificate: &Path) -> Result<()> {
    let mut command = Command::new("osslsigncode");
    command.arg("verify").arg("-CAfile").arg(certificate).arg("-in").arg(program);
    sh::output(&mut command).map(drop)
}

/// A key to sign with, and the certificate that it made for itself.
fn throw_away_key(scratch: &Path) -> Result<(PathBuf, PathBuf)> {
    let (key, certificate) = (scratch.join("key.pem"), scratch.join("certificate.pem"));
    let mut openssl = Command::new("openssl");
    openssl
        .args(["req", "-x509", "-newkey", "rsa:3072", "-nodes", "-days", "2", "-subj", "/CN=weft"])
        .args(["-addext", "extendedKeyUsage=codeSigning", "-addext", "keyUsage=digitalSignature"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate);
    sh::output(&mut openssl)?;
    Ok((key, certificate))
}
