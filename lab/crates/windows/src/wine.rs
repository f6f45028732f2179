//! Wine: a prefix of our own that reports Windows 10, and how a program is run in it.

use std::{
    env,
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Result, bail};
use xtask::sh;

use super::cache::Cache;

/// Debian's 64-bit loader, which becomes the Windows program and keeps its process id.
pub const WINE: &str = "/usr/lib/wine/wine64";

/// The process behind every handle and wait of the programs of a prefix.
const SERVER: &str = "/usr/lib/wine/wineserver64";

/// `bcryptprimitives.dll`, which every Rust program imports and Wine 8 lacks.
const SHIM: &str = r#"#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length)
{
    while (length != 0) {
        ULONG chunk = length > 0x1000000 ? 0x1000000 : (ULONG)length;
        if (!RtlGenRandom(data, chunk))
            return FALSE;
        data += chunk;
        length -= chunk;
    }
    return TRUE;
}
"#;

/// Creates the prefix and puts the shim into it.
pub fn create_prefix(cache: &Cache) -> Result<()> {
    eprintln!("creating the Wine prefix");
    let shim = build_shim(cache)?;
    let prefix = cache.path("prefix");
    if prefix.exists() {
        fs::remove_dir_all(&prefix)?;
    }
    let log = cache.path("wine.log");
    let output = File::create(&log)?;
    for (seconds, program, args) in [
        ("300", WINE, &["wineboot", "-i"][..]),
        ("60", WINE, &["winecfg", "-v", "win10"]),
        ("60", SERVER, &["-w"]),
    ] {
        let mut command = Command::new("timeout");
        command.arg(seconds).arg(program).args(args);
        environment(&mut command, cache);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
        if sh::run(&mut command).is_err() {
            bail!("Wine could not make its prefix; see {}", log.display());
        }
    }
    fs::copy(shim, prefix.join("drive_c/windows/system32/bcryptprimitives.dll"))?;
    Ok(())
}

/// Compiles the shim and returns where it is.
fn build_shim(cache: &Cache) -> Result<std::path::PathBuf> {
    let directory = cache.path("shim");
    fs::create_dir_all(&directory)?;
    let source = directory.join("bcryptprimitives.c");
    let library = directory.join("bcryptprimitives.dll");
    fs::write(&source, SHIM)?;
    sh::run(
        Command::new("x86_64-w64-mingw32-gcc")
            .args(["-O2", "-s", "-shared", "-nostartfiles", "-Wl,-e,0", "-o"])
            .args([&library, &source])
            .arg("-ladvapi32"),
    )?;
    Ok(library)
}

/// A command that runs a Windows program, without a display.
pub fn program(cache: &Cache, exe: &Path) -> Command {
    let mut command = Command::new(WINE);
    command.arg(exe);
    environment(&mut command, cache);
    command
}

/// Starts the server of the prefix, which then outlives each program by a minute. By itself it ends
/// 3 s after the last one, and a program that starts in that moment fails.
pub fn keep_server(cache: &Cache) -> Result<()> {
    // One that is about to end is waited for; one with programs serves those to come, too.
    for args in [["10", SERVER, "-w"], ["10", SERVER, "-p60"]] {
        let mut command = Command::new("timeout");
        command.args(args).stdin(Stdio::null());
        environment(&mut command, cache);
        command.status()?;
    }
    Ok(())
}

/// Ends everything that runs in the prefix.
pub fn stop(cache: &Cache) -> Result<()> {
    let mut command = Command::new(SERVER);
    command.arg("-k");
    environment(&mut command, cache);
    // The server reports failure when there was nothing to end.
    command.status()?;
    Ok(())
}

fn environment(command: &mut Command, cache: &Cache) {
    let debug = env::var_os("WINEDEBUG").unwrap_or_else(|| "-all".into());
    command
        .env("WINEPREFIX", cache.path("prefix"))
        .env("WINEDEBUG", debug)
        .env("WINEDLLOVERRIDES", "mscoree,mshtml,winemenubuilder.exe=")
        .env_remove("DISPLAY")
        .env_remove("WAYLAND_DISPLAY");
}
