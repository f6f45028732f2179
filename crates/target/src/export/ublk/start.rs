//! Start of a disk: a new one of the kernel, or one whose process has ended.

use super::disk::Disk;
use super::place;
use super::server::Server;
use super::url::UblkUrl;
use super::users::{self, is_alive};
use crate::disk_record::RecordedDisk;
use crate::disk_record::label;
use crate::export::local::hosts::{LocalHosts, NamespaceView, Opened};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_block::{Error, ErrorKind};
use weft_connection::identity::HostIdentity;
use weft_connection::limits::{POOL_PARTS, TRANSFER_BYTES_MAX, UBLK_OPEN_S, UBLK_QUEUES_MAX};
use weft_connection::loops::ask;
use weft_connection::settle::LateWriters;
use weft_io::RemoteLoop;
use weft_io::ublk::{DEPTH, DiskAttributes, Info, State, UblkControl, UblkDevice, UblkParameters};

/// The longest discard and write of zeroes, sectors: 1 GiB.
const RANGE_SECTORS: u32 = 1 << 21;

/// The largest block that the kernel's disks have everywhere.
const BLOCK_BYTES_MAX: u32 = 4096;

/// Pause before something is tried again that the kernel is not ready for.
const PAUSE: Duration = Duration::from_millis(20);

/// What a disk is made from.
pub(super) struct Start<'a> {
    pub control: &'a Arc<UblkControl>,
    pub hosts: &'a Arc<LocalHosts>,
    pub loops: &'a [RemoteLoop],
    pub late_writers: &'a LateWriters,
}

/// The driver's control device.
pub(super) fn control() -> Result<Arc<UblkControl>, Error> {
    let opened = UblkControl::open().map(Arc::new);
    opened.map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Error::new(
            ErrorKind::Unsupported,
            "this system has no ublk driver at present, so weft cannot make a disk of it: `modprobe ublk_drv` loads it (Linux 6.5 and newer)",
        ),
        io::ErrorKind::PermissionDenied => Error::new(
            ErrorKind::PermissionDenied,
            "no permission for /dev/ublk-control: run weft as root, or install packaging/61-weft-users.rules of weft in /etc/udev/rules.d, by which users make disks",
        ),
        _ => Error::io(format!("cannot use the ublk driver of this system: {e}"), e),
    })
}

impl Start<'_> {
    /// Makes the disk that a URL asks for.
    pub(super) fn disk(&self, url: &str) -> Result<Arc<Disk>, Error> {
        let asked = UblkUrl::parse(url)?;
        let opened = Arc::new(self.find(&asked)?);
        let gone = || Error::new(ErrorKind::NotFound, "the namespace has just been removed");
        let view = opened.view(&self.hosts.inventory.now()).ok_or_else(gone)?;
        let label = label(&view.namespace);
        let block_bytes = view.geometry.block_bytes;
        if block_bytes > BLOCK_BYTES_MAX {
            let text = format!(
                "{url}: the namespace has blocks of {block_bytes} bytes, and a disk of Linux by ublk has at most {BLOCK_BYTES_MAX}"
            );
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        match self.left_behind(asked.number, label)? {
            Some(info) if users::is_remnant(&info) => {
                if info.label == label {
                    self.to_keep(&info, &view).settle();
                }
                users::remove(&info)?;
                self.make(url, &opened, &view, (Some(info.device), label))
            }
            Some(info) => self.take_over(url, &opened, &view, &info),
            None => self.make(url, &opened, &view, (asked.number, label)),
        }
    }

    fn find(&self, asked: &UblkUrl) -> Result<Opened, Error> {
        let none = || Error::new(ErrorKind::NotFound, "there is no namespace to make a disk of");
        let (nqn, nsid) = self.hosts.chosen(asked.nqn.as_ref(), asked.nsid).ok_or_else(none)?;
        self.hosts.find(HostIdentity::of_this_host()?, &nqn, nsid)
    }

    /// A disk of this data whose process has ended, under this number or any.
    fn left_behind(&self, number: Option<u32>, label: u64) -> Result<Option<Info>, Error> {
        let Some(number) = number else {
            let known = present().into_iter().filter_map(|number| self.control.info(number).ok());
            let mut waiting = known.filter(|info| info.label == label && !is_alive(info.process));
            return waiting.next().map(|info| self.quiesced(&info)).transpose();
        };
        let info = match self.control.info(number) {
            Ok(info) => info,
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                return Err(users::not_ours(number));
            }
            Err(_) => return Ok(None),
        };
        let in_use = |why: String| {
            let text = format!("/dev/ublkb{number} {why}; choose another number, or ublk: for any");
            Error::new(ErrorKind::InUse, text)
        };
        // One that has not started yet is dead to the driver, too.
        if matches!(info.state, State::Live | State::Dead) && is_alive(info.process) {
            return Err(in_use(format!("is served by process {}", info.process)));
        }
        // What is left of a disk of a user has no data.
        if info.label != label && !info.is_of_user() {
            return Err(in_use("is there, and has other data".to_owned()));
        }
        self.quiesced(&info).map(Some)
    }

    /// Waits until the kernel has seen that the process of a disk has ended.
    fn quiesced(&self, info: &Info) -> Result<Info, Error> {
        let until = Instant::now() + Duration::from_secs(UBLK_OPEN_S);
        loop {
            let now = self.control.info(info.device).map_err(|e| failed("look at", info, e))?;
            match now.state {
                State::Quiesced | State::FailIo => return Ok(now),
                State::Dead if users::is_remnant(&now) => return Ok(now),
                State::Live if Instant::now() < until => std::thread::sleep(PAUSE),
                state => {
                    let text = format!(
                        "/dev/ublkb{} cannot be taken over: it is {state:?} and waits for no process",
                        info.device
                    );
                    return Err(Error::new(ErrorKind::InUse, text));
                }
            }
        }
    }

    fn make(
        &self,
        url: &str,
        opened: &Arc<Opened>,
        view: &NamespaceView,
        (number, label): (Option<u32>, u64),
    ) -> Result<Arc<Disk>, Error> {
        let request_bytes = self.request_bytes(view)?;
        let wanted = Info {
            device: number.unwrap_or(u32::MAX),
            queues: self.loops.len().clamp(1, UBLK_QUEUES_MAX) as u16,
            depth: DEPTH,
            state: State::Dead,
            request_bytes,
            flags: 0,
            process: std::process::id() as i32,
            label,
            owner: (0, 0),
        };
        let made = users::add(self.control, &wanted)?;
        let parameters = parameters(view, made.request_bytes);
        let size = (parameters.block_bytes, parameters.sectors);
        let kept = self.to_keep(&made, view).begin();
        let disk = Disk::new(url, self.control, made, size, kept);
        // Before anything else, as only who may open a device of a user may give it commands.
        let started = self.open(&made).and_then(|device| {
            let described = self.control.set_parameters(&made, &parameters);
            described.map_err(|e| failed("describe", &made, e))?;
            self.serve(&disk, device, opened)?;
            self.control.start(&made).map_err(|e| failed("start", &made, e))?;
            users::wait_for_udev(&made)
        });
        if let Err(e) = started {
            let _ = disk.remove_after(|| ());
            return Err(e);
        }
        Ok(disk)
    }

    fn take_over(
        &self,
        url: &str,
        opened: &Arc<Opened>,
        view: &NamespaceView,
        info: &Info,
    ) -> Result<Arc<Disk>, Error> {
        let fails = |e| failed("take over", info, e);
        let (block_bytes, sectors) = self.control.size(info).map_err(fails)?;
        if block_bytes != view.geometry.block_bytes {
            let text = format!(
                "/dev/ublkb{} has blocks of {block_bytes} bytes, and its data has ones of {} now",
                info.device, view.geometry.block_bytes
            );
            return Err(Error::new(ErrorKind::InUse, text));
        }
        let kept = self.to_keep(info, view).take_over();
        let disk = Disk::new(url, self.control, *info, (block_bytes, sectors), kept);
        self.patiently(|| self.control.begin_recovery(info)).map_err(fails)?;
        self.open(info)
            .and_then(|device| self.serve(&disk, device, opened))
            .and_then(|()| self.control.end_recovery(info).map_err(fails))
            .inspect_err(|_| disk.abandon())?;
        disk.work_on(super::disk::Job::Resize { blocks: view.geometry.blocks });
        Ok(disk)
    }

    fn to_keep<'a>(&'a self, info: &Info, view: &'a NamespaceView) -> RecordedDisk<'a> {
        RecordedDisk {
            name: format!("/dev/ublkb{}", info.device),
            place: place::of_disk(info.device),
            label: info.label,
            device: &view.namespace.device,
            late_writers: self.late_writers,
        }
    }

    fn open(&self, info: &Info) -> Result<Arc<UblkDevice>, Error> {
        let opened = self.patiently(|| UblkDevice::open(info)).map(Arc::new);
        opened.map_err(|e| users::not_given(info, e))
    }

    /// Serves all queues of a disk, over the loops in turn.
    fn serve(
        &self,
        disk: &Arc<Disk>,
        device: Arc<UblkDevice>,
        opened: &Arc<Opened>,
    ) -> Result<(), Error> {
        let info = *disk.info();
        for number in 0..info.queues {
            let on = &self.loops[usize::from(number) % self.loops.len()];
            let names = (Arc::clone(disk), Arc::clone(self.hosts), Arc::clone(opened));
            let device = Arc::clone(&device);
            disk.queue_begins();
            let driver = ask(on, move |on| {
                let (disk, hosts, opened) = names;
                Server::start(on, &disk, (&hosts, &opened), (&device, number))
                    .inspect_err(|_| disk.queue_ended())
            })??;
            disk.queue_began(on, driver);
        }
        Ok(())
    }

    /// Tries again what the kernel is not ready for: a process that ends has the device yet, or
    /// udev has not given it to this user.
    fn patiently<T>(&self, what: impl Fn() -> io::Result<T>) -> io::Result<T> {
        let until = Instant::now() + Duration::from_secs(UBLK_OPEN_S);
        loop {
            match what() {
                Err(e) if is_passing(&e) && Instant::now() < until => std::thread::sleep(PAUSE),
                other => return other,
            }
        }
    }

    /// The longest request: what the device takes, and what leaves memory for others.
    fn request_bytes(&self, view: &NamespaceView) -> Result<u32, Error> {
        let on = self.loops.first().ok_or_else(|| Error::new(ErrorKind::Usage, "no loop"))?;
        let pool = ask(on, |on| on.pool().cap_bytes())? / POOL_PARTS / 2;
        let most = view.geometry.max_transfer_bytes.min(TRANSFER_BYTES_MAX);
        let most = most.min(u32::try_from(pool).unwrap_or(u32::MAX));
        Ok(1 << most.max(4096).ilog2())
    }
}

fn is_passing(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::ResourceBusy | io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
    )
}

fn failed(what: &str, info: &Info, e: io::Error) -> Error {
    Error::io(format!("cannot {what} /dev/ublkb{}: {e}", info.device), e)
}

fn parameters(view: &NamespaceView, request_bytes: u32) -> UblkParameters {
    let (geometry, features) = (view.geometry, view.features);
    let block_bytes = geometry.block_bytes;
    let optimal = u64::from(geometry.optimal_blocks) * u64::from(block_bytes);
    let optimal = optimal.clamp(block_bytes.into(), request_bytes.max(block_bytes).into());
    let range = |can: bool| if can && features.write { RANGE_SECTORS } else { 0 };
    UblkParameters {
        attributes: DiskAttributes {
            read_only: !features.write,
            volatile_cache: features.volatile_cache,
        },
        block_bytes,
        optimal_bytes: 1 << optimal.ilog2(),
        max_sectors: request_bytes / 512,
        sectors: geometry.bytes() / 512,
        discard_sectors: range(features.discard),
        zeroes_sectors: range(features.write_zeroes),
    }
}

/// The numbers of all disks of the driver.
fn present() -> Vec<u32> {
    let found = std::fs::read_dir(Path::new("/sys/class/ublk-char"));
    let names = found.into_iter().flatten().flatten().map(|entry| entry.file_name());
    let number = |name: std::ffi::OsString| name.to_str()?.strip_prefix("ublkc")?.parse().ok();
    let mut numbers: Vec<u32> = names.filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}
