//! The server of a connection: opens the source, listens on the loopback, keeps a record, and ends
//! when told to.

use super::entries::{Entry, Runtime, ServerLock, create};
use super::path_states::EntryPath;
use super::plan::{
    AttachProtocol, AttachedExport, CHAP_USER, FUSE_MODULE, File, LOOP_MODULE, UBLK_MODULE,
};
use super::run;
use super::takeover::Serving;
use crate::private_files::make_private;
use crate::sources::{LOOK, lost};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use weft_block::{BlockDevice, Error, ErrorKind, waiting};
use weft_endpoint::disk_record::RecordedDevice;
use weft_endpoint::export::iscsi::Settings;
use weft_endpoint::export::{self, ExportConfig, Exports};
use weft_endpoint::identity::subsystem_nqn;
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_endpoint::loops::{Loops, LoopsConfig};
use weft_endpoint::source::discovered;
use weft_endpoint::url::{FUSE, UBLK};
use weft_endpoint::{ConnectOptions, TlsFiles};
use weft_proto::iscsi::chap::Credentials;
use weft_proto::iscsi::target::ChapUser;
use weft_proto::iscsi::text::Name;

/// Time limit for a server to end: commands in progress, then its source.
const ENDS: Duration = Duration::from_secs(30);

/// A connection to serve.
pub struct ServerPlan {
    /// Name of the connection.
    pub name: String,
    /// The source.
    pub url: String,
    /// The protocol.
    pub protocol: AttachProtocol,
    /// Loopback port, or 0 for a free one.
    pub port: u16,
    /// The directory in which the file of FUSE appears; `None`: one of the connection's own.
    pub directory: Option<PathBuf>,
    /// A daemon holds the connection.
    pub by_daemon: bool,
    /// Others may write to the data, too.
    pub shared: bool,
}

impl ServerPlan {
    /// The name of the iSCSI target.
    pub fn iqn(&self) -> String {
        format!("iqn.2026-01.local.weft:{}", self.name)
    }

    /// The URL to listen on.
    fn listen(&self, runtime: &Runtime, port: u16) -> String {
        match self.protocol {
            AttachProtocol::Iscsi => format!("iscsi://127.0.0.1:{port}"),
            AttachProtocol::Nbd if cfg!(unix) => {
                format!("nbd+unix:///?socket={}", runtime.socket(&self.name).display())
            }
            AttachProtocol::Nbd => format!("nbd://127.0.0.1:{port}"),
            AttachProtocol::Ublk => UBLK.to_owned(),
            AttachProtocol::Fuse | AttachProtocol::Loop => {
                format!("{FUSE}{}", self.directory(runtime).display())
            }
        }
    }

    /// The directory in which the file of FUSE appears.
    pub fn directory(&self, runtime: &Runtime) -> PathBuf {
        self.directory.clone().unwrap_or_else(|| runtime.directory(&self.name))
    }

    /// Loads what serving needs, and makes the directory of a file that has no other.
    fn prepare(&self, runtime: &Runtime) -> Result<(), Error> {
        match self.protocol {
            AttachProtocol::Nbd => {
                // A socket left behind by a killed server; no process listens on it, because we
                // hold the lock.
                let _ = std::fs::remove_file(runtime.socket(&self.name));
            }
            AttachProtocol::Ublk => run::load(UBLK_MODULE),
            AttachProtocol::Fuse | AttachProtocol::Loop => {
                let needed = [LOOP_MODULE, FUSE_MODULE];
                let first = usize::from(self.protocol == AttachProtocol::Fuse);
                needed[first..].iter().for_each(|module| run::load(module));
                let directory = self.directory(runtime);
                let file = File { directory: directory.clone(), by_root: run::is_root() };
                run::clear_dead(&AttachedExport::Fuse(file));
                if self.directory.is_none() {
                    let failed =
                        |e| Error::io(format!("cannot make {}: {e}", directory.display()), e);
                    make_private(&directory).map_err(failed)?;
                }
            }
            AttachProtocol::Iscsi => {}
        }
        Ok(())
    }

    /// The settings of the iSCSI target: who logs in there knows the secret of the connection. An
    /// initiator that `continues` from the server before logs in with those that it has.
    fn iscsi(&self, runtime: &Runtime, continues: bool) -> Result<Settings, Error> {
        let name =
            Name::new(&self.iqn()).map_err(|e| Error::new(ErrorKind::Usage, e.to_string()))?;
        let mut settings =
            Settings { name: Some(name), random_secrets: true, ..Settings::default() };
        if self.protocol == AttachProtocol::Iscsi {
            let secret = if continues { old_credentials } else { new_credentials };
            let credentials = secret(&runtime.secret(&self.name))?;
            settings.chap = vec![ChapUser { credentials, initiators: Vec::new() }];
            settings.chap_target = Some(secret(&runtime.target_secret(&self.name))?);
        }
        Ok(settings)
    }

    /// Refuses a device whose end a client of the protocol leaves out: Linux makes a disk of the
    /// whole blocks in the bytes of an NBD export.
    fn check_size(&self, device: &dyn BlockDevice) -> Result<(), Error> {
        let geometry = device.geometry();
        let leaves_end = matches!(self.protocol, AttachProtocol::Nbd | AttachProtocol::Loop);
        if !leaves_end || geometry.padding_bytes == 0 {
            return Ok(());
        }
        let clients =
            if self.protocol == AttachProtocol::Nbd { "NBD clients" } else { "a loop device" };
        let text = format!(
            "{} has {} bytes, which is not a whole number of blocks of {} bytes, so that {clients} would leave out its end; use --as ublk \
             or --as iscsi",
            device.url(),
            geometry.data_bytes(),
            geometry.block_bytes
        );
        Err(Error::new(ErrorKind::Unsupported, text))
    }

    /// The record of a device that is not served yet.
    fn entry(&self, device: &dyn BlockDevice) -> Entry {
        let (geometry, identity) = (device.geometry(), device.identity());
        Entry {
            name: self.name.clone(),
            url: device.url().to_owned(),
            protocol: self.protocol.to_string(),
            port: 0,
            served: String::new(),
            iqn: if self.protocol == AttachProtocol::Iscsi { self.iqn() } else { String::new() },
            chap_user: String::new(),
            pid: std::process::id(),
            serial: identity.serial.unwrap_or_default(),
            model: identity.model.unwrap_or_default(),
            firmware: identity.firmware.unwrap_or_default(),
            used_bytes: device
                .used_blocks()
                .map(|blocks| blocks.saturating_mul(geometry.block_bytes.into())),
            bytes: geometry.bytes(),
            block_bytes: geometry.block_bytes,
            device: String::new(),
            attached: false,
            lost: false,
            by_daemon: self.by_daemon,
            uuid: identity
                .uuid
                .filter(|_| device.features().write)
                .map_or_else(String::new, |uuid| uuid.to_string()),
            shared: self.shared,
            paths: Vec::new(),
        }
    }

    /// Listens; at a socket, which only this user can use.
    fn serve(
        &self,
        runtime: &Runtime,
        port: u16,
        config: &ExportConfig,
        loops: &Loops,
    ) -> Result<Exports, Error> {
        self.prepare(runtime)?;
        let exports = export::start(config, &[self.listen(runtime, port)], loops.remotes())?;
        #[cfg(unix)]
        if self.protocol == AttachProtocol::Nbd {
            weft_io::socket_file::restrict(&runtime.socket(&self.name), 0o600).map_err(plain)?;
        }
        Ok(exports)
    }
}

/// The running server of a disk.
pub struct DiskServer {
    exports: Exports,
    loops: Loops,
    held: ServerLock,
    entry: Entry,
    inventory: Arc<LiveInventory>,
    kept: Option<Arc<RecordedDevice>>,
}

impl DiskServer {
    /// Starts the server.
    pub fn start(plan: &ServerPlan, options: &ConnectOptions) -> Result<Self, Error> {
        let runtime = Runtime::open()?;
        let mut held = runtime.hold(&plan.name)?;
        let loops = Loops::start(&LoopsConfig::default())?;
        let mut options = options.clone();
        discovered::look_up(&plan.url, &mut options)?;
        let device = weft_endpoint::open(&plan.url, &options)?;
        plan.check_size(&*device)?;
        runtime.check_writer(&plan.entry(&*device))?;
        let late_writers = options.control.late_writers();
        let serving = Serving::begin((plan.protocol, plan.port), device, &held, &late_writers)?;
        let Serving { device, kept, continues } = serving;
        let iscsi = plan.iscsi(&runtime, continues.is_some())?;
        let chap_user =
            iscsi.chap.first().map(|user| user.credentials.name.clone()).unwrap_or_default();
        let mut entry = Entry { chap_user, ..plan.entry(&*device) };
        let port = continues.as_ref().map_or(plan.port, |entry| entry.port);
        if let Some(before) = continues {
            (entry.device, entry.attached) = (before.device, before.attached);
        }
        let config = ExportConfig {
            inventory: LiveInventory::of_devices(
                SubsystemConfig::new(subsystem_nqn()?),
                vec![device],
            )
            .map_err(Error::from)?,
            iscsi,
            tls: TlsFiles::default(),
            late_writers,
        };
        let exports = plan.serve(&runtime, port, &config, &loops)?;
        entry.served = exports.urls().first().cloned().unwrap_or_default();
        if !entry.chap_user.is_empty() {
            entry.served = entry.served.replacen("://", &format!("://{}@", entry.chap_user), 1);
        }
        entry.port = port_of(&entry.served);
        held.serve(&entry).map_err(plain)?;
        Ok(Self { exports, loops, held, entry, inventory: config.inventory, kept })
    }

    /// Its record.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Records the states of the paths to the source, unless they are `noted`. If that fails, weft
    /// continues: the log has them, too.
    fn note_paths(&self, noted: &mut Vec<EntryPath>) {
        let now = self.inventory.now();
        let paths = now.namespaces().flat_map(|namespace| namespace.device.paths());
        let paths: Vec<EntryPath> = paths.map(EntryPath::from).collect();
        if paths == *noted {
            return;
        }
        if let Err(e) = self.held.runtime().note_paths(&self.entry.name, &paths) {
            tracing::warn!("cannot record the states of the paths: {e}");
        }
        *noted = paths;
    }

    /// Ends the server in order.
    pub fn stop(self) -> Result<(), Error> {
        self.exports.stop()?;
        self.loops.stop()?;
        if let Some(kept) = &self.kept {
            kept.forget();
        }
        drop(self.held);
        Ok(())
    }
}

/// Creates a CHAP secret for a connection; it is kept in a file while the connection lives.
fn new_credentials(path: &Path) -> Result<Credentials, Error> {
    let secret = crate::secret::random();
    let failed = |e| Error::io(format!("cannot write {}: {e}", path.display()), e);
    create(path).and_then(|mut file| file.write_all(secret.as_bytes())).map_err(failed)?;
    Ok(Credentials { name: CHAP_USER.to_owned(), secret: secret.as_str().into() })
}

/// The one that is in this file since an earlier server.
fn old_credentials(path: &Path) -> Result<Credentials, Error> {
    let secret = crate::secret::from_file(path)?;
    Ok(Credentials { name: CHAP_USER.to_owned(), secret: secret.as_slice().into() })
}

/// The port of a URL, if it has one.
fn port_of(url: &str) -> u16 {
    let authority =
        url.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(0)
}

/// Waits for a signal or, on systems without signals, for the file that replaces it. Records the
/// states of the paths to the source, and its loss; with `ends_on_loss` that ends the server, and
/// the source's URL is returned.
pub fn wait_for_end(
    signal: &Receiver<()>,
    server: &DiskServer,
    ends_on_loss: bool,
) -> Option<String> {
    let runtime = server.held.runtime();
    let stop = runtime.stop(&server.entry.name);
    let (mut noted, mut paths) = (false, Vec::new());
    server.note_paths(&mut paths);
    // Any other error means that the sender is gone.
    while signal.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout) {
        if !cfg!(unix) && stop.exists() {
            break;
        }
        server.note_paths(&mut paths);
        let Some(url) = lost(&server.inventory) else { continue };
        if !core::mem::replace(&mut noted, true) {
            runtime.note_loss(&server.entry.name);
        }
        if ends_on_loss {
            return Some(url);
        }
    }
    None
}

/// An error of the system, as it says it.
fn plain(e: std::io::Error) -> Error {
    Error::io(e.to_string(), e)
}

/// Tells the server of a connection to end, and waits until it has, and its process is gone.
pub fn end(runtime: &Runtime, entry: &Entry) -> Result<(), Error> {
    let process = Process::of(entry);
    tell_to_end(runtime, entry)?;
    let until = Instant::now() + ENDS;
    let of = || format!("the server of \"{}\" (process {}) to end", entry.name, entry.pid);
    let _waiting = waiting::begin(of);
    while runtime.is_held(&entry.name) {
        if Instant::now() > until {
            let text = format!(
                "the server of \"{}\" (process {}) did not end within {} s; kill it",
                entry.name,
                entry.pid,
                ENDS.as_secs()
            );
            return Err(Error::new(ErrorKind::TimedOut, text));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // A service manager would report one that still returns its memory as left behind.
    process.wait_until(until);
    let _ = std::fs::remove_file(runtime.log(&entry.name));
    Ok(())
}

/// A process that holds a connection, not one that has its number later.
#[cfg(target_os = "linux")]
struct Process(Option<std::os::fd::OwnedFd>);

#[cfg(target_os = "linux")]
impl Process {
    fn of(entry: &Entry) -> Self {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};
        let pid = i32::try_from(entry.pid).ok().and_then(Pid::from_raw);
        Self(pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()))
    }

    /// Returns when the process is gone, and at this time at the latest.
    fn wait_until(self, until: Instant) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let Some(process) = self.0 else { return };
        let left = Timespec::try_from(until.saturating_duration_since(Instant::now()));
        let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], left.ok().as_ref());
    }
}

/// Elsewhere the lock tells as much as is needed.
#[cfg(not(target_os = "linux"))]
struct Process;

#[cfg(not(target_os = "linux"))]
impl Process {
    fn of(_: &Entry) -> Self {
        Self
    }

    fn wait_until(self, _: Instant) {}
}

/// The lock is held, so the process is the one that wrote the record.
#[cfg(unix)]
fn tell_to_end(_: &Runtime, entry: &Entry) -> Result<(), Error> {
    use rustix::process::{Pid, Signal, kill_process};
    let Some(pid) = i32::try_from(entry.pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
    match kill_process(pid, Signal::TERM) {
        Err(e) if e != rustix::io::Errno::SRCH => Err(plain(e.into())),
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn tell_to_end(runtime: &Runtime, entry: &Entry) -> Result<(), Error> {
    create(&runtime.stop(&entry.name)).map(drop).map_err(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_urls() {
        assert_eq!(port_of("iscsi://127.0.0.1:3261/iqn.2026-01.local.weft:a/0"), 3261);
        assert_eq!(port_of("nbd+unix:///1?socket=/run/a"), 0);
        assert_eq!(port_of("nbd://127.0.0.1:10809/1"), 10_809);
    }
}
