//! `fusermount3`, which mounts for users without that privilege: it opens `/dev/fuse`, mounts, and
//! passes the descriptor to its caller.

use super::channel::FuseChannel;
use super::settings::MountSettings;
use crate::limits::FUSE_START_S;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use std::ffi::OsString;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The program.
const PROGRAM: &str = "fusermount3";

/// Variable with the number of the socket over which the program passes the descriptor.
const SOCKET: &str = "_FUSE_COMMFD";

/// Mounts at a directory that belongs to this user.
pub(super) fn mount(directory: &Path, settings: &MountSettings) -> io::Result<FuseChannel> {
    let access = if settings.is_read_only { "ro" } else { "rw" };
    let options = format!(
        "{access},nosuid,nodev,noatime,fsname=weft,subtype=weft,default_permissions,max_read={}",
        settings.request_bytes
    );
    let (own, other) = UnixStream::pair()?;
    own.set_read_timeout(Some(Duration::from_secs(FUSE_START_S)))?;
    let mut command = program();
    command.args(["-o", &options, "--"]).arg(argument(directory));
    // The socket is its standard input, so that it inherits no other descriptor.
    command.env(SOCKET, "0").stdin(OwnedFd::from(other));
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(missing)?;
    // The command has the other end.
    drop(command);
    let received = receive(&own);
    check(child.wait_with_output()?)?;
    Ok(FuseChannel::of(received?))
}

/// Unmounts a directory that [`mount`] has mounted.
pub(super) fn unmount(directory: &Path, is_forced: bool) -> io::Result<()> {
    let mut command = program();
    command.arg("-u").args(is_forced.then_some("-z")).arg("--").arg(argument(directory));
    let output = command.stdin(Stdio::null()).output().map_err(missing)?;
    check(output)
}

/// The program, with nothing of this process's environment but where programs are: there may be
/// secrets in it.
fn program() -> Command {
    let mut command = Command::new(PROGRAM);
    command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command
}

fn missing(e: io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{PROGRAM}: {e}"))
}

/// The error that the program printed.
fn check(output: std::process::Output) -> io::Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().lines().last().unwrap_or("fusermount3 printed nothing").to_owned();
    let kind = match said.contains("busy") {
        true => io::ErrorKind::ResourceBusy,
        false => io::ErrorKind::PermissionDenied,
    };
    Err(io::Error::new(kind, said))
}

/// Receives the descriptor that the program passes.
fn receive(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    let is_whole = got.bytes > 0 && !got.flags.contains(ReturnFlags::CTRUNC);
    let passed = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    passed.filter(|_| is_whole).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// A path as an argument that no program takes for an option.
fn argument(path: &Path) -> OsString {
    if path.as_os_str().as_bytes().starts_with(b"/") {
        return path.into();
    }
    Path::new(".").join(path).into()
}
