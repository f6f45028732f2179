//! `weft mirror`: makes mirrors, shows what their labels say, compares the legs, and replaces a
//! lost one. A mirror is used by its URL.

use crate::connection::ConnectArgs;
use crate::process::exit::{Failure, printed};
use clap::{Args, Subcommand};
use std::io::Write;
use std::path::Path;
use uuid::Uuid;
use weft_block::file::is_windows_device;
use weft_block::mirror::admin::{self, Holding, Label};
use weft_block::units::format_size;
use weft_block::{Device, Error, ErrorKind, grammar};
use weft_endpoint::url::without_secret;
use weft_endpoint::{ConnectOptions, Control, Disk, PathOptions, existing_data};

/// Bytes that are compared at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// Size of a state file.
const STATE_BYTES: usize = 64 << 10;

/// Options of `weft mirror`.
#[derive(Args, Debug)]
pub struct MirrorArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Make a mirror of two or three sources; what the first one holds is kept, except for its last
    /// MiB
    #[command(after_help = "\
Example:
  weft mirror create --state /var/lib/weft/m0.state nvme+tcp://192.0.2.1/nqn.2014-08.org.example:a nvme+tcp://192.0.2.2/nqn.2014-08.org.example:b")]
    Create(CreateArgs),
    /// Show what the labels of legs say
    #[command(after_help = "\
Example:
  weft mirror status file:/srv/a.img file:/srv/b.img")]
    Status(LegsArgs),
    /// Compare the legs of a mirror that nobody has open
    #[command(after_help = "\
Example:
  weft mirror scrub file:/srv/a.img file:/srv/b.img")]
    Scrub(LegsArgs),
    /// Label a new leg that takes the place of a lost one; it is copied to when the mirror is open
    #[command(after_help = "\
Example:
  weft mirror replace --leg 1 file:/srv/a.img file:/srv/new.img")]
    Replace(ReplaceArgs),
}

#[derive(Args, Debug)]
struct CreateArgs {
    /// The legs: two or three URLs
    #[arg(required = true, num_args = 2..=3, value_name = "URL")]
    urls: Vec<String>,
    /// State file, which is made: it lets a mirror of two legs start with one
    #[arg(long, value_name = "PATH")]
    state: Option<String>,
    /// Legs that have to be in sync; with fewer the mirror waits [default: one less than there are]
    #[arg(long, value_name = "N")]
    min_legs: Option<usize>,
    /// The legs hold the same already, as new disks of zeroes do: copy nothing
    #[arg(long)]
    assume_clean: bool,
    /// Write also where a label of another mirror, a partition table, a file system or the like is
    /// recognised
    #[arg(long)]
    destroy_data: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
struct LegsArgs {
    /// The legs
    #[arg(required = true, num_args = 1..=3, value_name = "URL")]
    urls: Vec<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
struct ReplaceArgs {
    /// A leg that is in sync
    good: String,
    /// The new leg; what it holds is lost
    new: String,
    /// Number of the leg that is lost
    #[arg(long, value_name = "N")]
    leg: usize,
    /// Write also where a label of another mirror, a partition table, a file system or the like is
    /// recognised
    #[arg(long)]
    destroy_data: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// A leg that is open.
struct Leg {
    url: String,
    device: Device,
    disk: Disk,
    /// First block of the area.
    area: u64,
    area_bytes: usize,
}

fn usage(text: String) -> Failure {
    Failure::of(ErrorKind::Usage, text)
}

impl Leg {
    fn open(url: &str, options: &ConnectOptions) -> Result<Self, Failure> {
        let options = ConnectOptions { in_mirror: true, ..options.clone() };
        let device = weft_endpoint::open(url, &options)?;
        let disk = Disk::on(Device::clone(&device))?;
        let (url, geometry) = (without_secret(url), disk.geometry());
        let Some((offset, area_bytes)) = admin::area(geometry.whole_bytes()) else {
            return Err(usage(format!(
                "{url} is too small for a mirror, which keeps the last MiB of each leg"
            )));
        };
        Ok(Self { url, area: offset / u64::from(geometry.block_bytes), area_bytes, device, disk })
    }

    fn block_bytes(&self) -> u32 {
        self.disk.geometry().block_bytes
    }

    fn read_area(&self) -> Result<Vec<u8>, Failure> {
        let mut area = vec![0; self.area_bytes];
        self.disk.read(self.area, &mut area)?;
        Ok(area)
    }

    fn label(&self) -> Result<Option<Label>, Failure> {
        Ok(admin::label(&self.url, &self.read_area()?, self.block_bytes())?)
    }

    /// Refuses a leg that belongs to a mirror already or holds data; `rest` says what becomes of
    /// it.
    fn refuse_data(&self, rest: &str) -> Result<(), Failure> {
        if let Ok(Some(label)) = self.label() {
            let text = format!(
                "{} is leg {} of mirror {} already; give --destroy-data to make it another one",
                self.url, label.leg, label.mirror
            );
            return Err(Failure::of(ErrorKind::InUse, text));
        }
        let refused = existing_data::refuse_data_of(&self.disk, &self.device);
        Ok(refused.map_err(|error| Error::new(error.kind(), format!("{error}{rest}")))?)
    }

    fn write_area(&self, area: &[u8]) -> Result<(), Failure> {
        self.disk.write(self.area, area)?;
        Ok(self.disk.flush()?)
    }
}

/// Opens legs that were made before: a file that is not there is not to be created now.
fn open_made(args: &LegsArgs, control: &Control) -> Result<Vec<Leg>, Failure> {
    let is_missing = |path: &str| !is_windows_device(path) && !Path::new(path).exists();
    let missing = |url: &&String| grammar::path(url).is_some_and(is_missing);
    if let Some(url) = args.urls.iter().find(missing) {
        let text = format!(
            "{url}: there is no such file; name the legs of a mirror, as `weft mirror create` made them"
        );
        return Err(Failure::of(ErrorKind::NotFound, text));
    }
    open_all(&args.urls, &args.connect, control)
}

fn open_all(
    urls: &[String],
    connect: &ConnectArgs,
    control: &Control,
) -> Result<Vec<Leg>, Failure> {
    let options = ConnectOptions { paths: PathOptions::once(), ..connect.options(1, control)? };
    urls.iter().map(|url| Leg::open(url, &options)).collect()
}

/// Runs `weft mirror`.
pub fn run(args: &MirrorArgs, control: &Control) -> Result<(), Failure> {
    match &args.action {
        Action::Create(args) => create(args, control),
        Action::Status(args) => status(args, control),
        Action::Scrub(args) => scrub(args, control),
        Action::Replace(args) => replace(args, control),
    }
}

fn create(args: &CreateArgs, control: &Control) -> Result<(), Failure> {
    let legs = open_all(&args.urls, &args.connect, control)?;
    let holding = if args.assume_clean { Holding::TheSame } else { Holding::Anything };
    let (uuid, areas) = label(&legs, args.min_legs, holding, control)?;
    let file = args
        .state
        .as_deref()
        .map(|path| weft_endpoint::open(&state_url(path), &connect_local(control)))
        .transpose()?;
    // Nothing is written before everything has been looked at.
    if !args.destroy_data {
        legs[0].refuse_data(
            ". Of the first leg only the last MiB is overwritten: make room there first",
        )?;
        legs[1..].iter().try_for_each(|leg| leg.refuse_data(""))?;
        file.iter().try_for_each(refuse_state)?;
    }
    for (leg, area) in legs.iter().zip(&areas) {
        leg.write_area(area)?;
    }
    let state = args.state.as_ref().map(|path| format!("state={path},")).unwrap_or_default();
    if let Some(file) = file {
        let file = Disk::on(file)?;
        file.write(0, &vec![0; STATE_BYTES])?;
        file.flush()?;
    }
    writeln!(std::io::stdout(), "mirror {uuid}: mirror:{state}{}", args.urls.join(","))?;
    Ok(())
}

/// Labels new devices, which all hold the same, as the legs of a new mirror.
pub fn label_new(urls: &[String], options: &ConnectOptions) -> Result<(), Failure> {
    let options = ConnectOptions { paths: PathOptions::once(), nr_io_queues: 1, ..options.clone() };
    let legs = urls.iter().map(|url| Leg::open(url, &options)).collect::<Result<Vec<_>, _>>()?;
    let (_, areas) = label(&legs, None, Holding::TheSame, &options.control)?;
    legs.iter().zip(&areas).try_for_each(|(leg, area)| leg.write_area(area))
}

/// The name of a new mirror, and the areas of its legs.
fn label(
    legs: &[Leg],
    min_legs: Option<usize>,
    holding: Holding,
    control: &Control,
) -> Result<(Uuid, Vec<Vec<u8>>), Failure> {
    let block_bytes = legs[0].block_bytes();
    if let Some(other) = legs.iter().find(|leg| leg.block_bytes() != block_bytes) {
        return Err(usage(format!(
            "{} has blocks of {block_bytes} bytes, and {} of {}",
            legs[0].url,
            other.url,
            other.block_bytes()
        )));
    }
    let sizes: Vec<u64> = legs.iter().map(|leg| leg.disk.geometry().whole_bytes()).collect();
    let uuid = Uuid::from_bytes(control.identities().random());
    let tag = u64::from_le_bytes(control.identities().random());
    let areas = admin::create(uuid, &sizes, min_legs, block_bytes, tag, holding)?;
    Ok((uuid, areas))
}

fn state_url(path: &str) -> String {
    format!("file:{},size={STATE_BYTES}", grammar::closed(path))
}

/// Refuses a file that is the state file of a mirror, or something else.
fn refuse_state(device: &Device) -> Result<(), Failure> {
    let file = Disk::on(Device::clone(device))?;
    let mut start = vec![0; STATE_BYTES];
    file.read(0, &mut start)?;
    if file.geometry().bytes() != STATE_BYTES as u64 || start.iter().any(|byte| *byte != 0) {
        let text = format!(
            "{} is not a new state file; name another one, or give --destroy-data to overwrite it",
            device.url()
        );
        return Err(Failure::of(ErrorKind::InUse, text));
    }
    Ok(())
}

fn connect_local(control: &Control) -> ConnectOptions {
    ConnectOptions { control: control.clone(), ..ConnectOptions::default() }
}

fn status(args: &LegsArgs, control: &Control) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for leg in open_made(args, control)? {
        let Some(label) = leg.label()? else {
            writeln!(out, "{}: no label of a mirror", leg.url)?;
            continue;
        };
        let in_sync: Vec<String> = label.in_sync.iter().map(usize::to_string).collect();
        writeln!(
            out,
            "{}: leg {} of {} of mirror {}",
            leg.url, label.leg, label.legs, label.mirror
        )?;
        writeln!(
            out,
            "  {}, generation {}, legs in sync then: {}, {} needed{}",
            format_size(label.data_bytes),
            label.generation,
            in_sync.join(" "),
            label.min_legs,
            if label.is_syncing { "; this leg is being copied to" } else { "" }
        )?;
        let place = if label.has_state { "in the state file" } else { "on the legs" };
        match &label.claim {
            Some((host, time)) => writeln!(
                out,
                "  open at {host} since {time} (seconds since 1970), or not closed there; bitmaps {place}"
            )?,
            None if label.is_clean => writeln!(out, "  closed in order; bitmaps {place}")?,
            None => writeln!(out, "  not equal yet; bitmaps {place}")?,
        }
        for (first, blocks) in &label.unreadable {
            writeln!(
                out,
                "  {blocks} blocks from block {first} on can be read from no leg until they are written"
            )?;
        }
    }
    Ok(())
}

/// The legs to compare, of which the first says how much there is to compare.
fn comparable(legs: &[Leg]) -> Result<Vec<(&Leg, Label)>, Failure> {
    let mut compared: Vec<(&Leg, Label)> = Vec::new();
    for leg in legs {
        let label =
            leg.label()?.ok_or_else(|| usage(format!("{} has no label of a mirror", leg.url)))?;
        if let Some((host, _)) = &label.claim {
            let text = format!(
                "the mirror is open at {host}, or was not closed there; open and close it once before it is compared"
            );
            return Err(Failure::of(ErrorKind::InUse, text));
        }
        compared.push((leg, label));
    }
    let newest = compared.iter().map(|(_, label)| label.generation).max().unwrap_or(0);
    compared.retain(|(_, label)| {
        label.generation == newest && label.in_sync.contains(&label.leg) && !label.is_syncing
    });
    let [(_, label), others @ ..] = &compared[..] else {
        return Err(usage("no leg is in sync".into()));
    };
    if others.is_empty() || others.iter().any(|(_, other)| other.mirror != label.mirror) {
        return Err(usage("two legs of one mirror that are in sync are needed to compare".into()));
    }
    Ok(compared)
}

/// Prints the blocks of two legs that differ, from the block `first` on; how many these are.
fn compare(
    first: u64,
    (leg, ours): (&Leg, &[u8]),
    other: &Leg,
    theirs: &mut [u8],
) -> Result<u64, Failure> {
    other.disk.read(first, theirs)?;
    let block = leg.block_bytes() as usize;
    let mut differences = 0;
    let pairs = (first..).zip(ours.chunks(block).zip(theirs.chunks(block)));
    for (at, _) in pairs.filter(|(_, (our, their))| our != their) {
        differences += 1;
        // All are counted, whoever reads this.
        let mut out = std::io::stdout();
        printed(writeln!(out, "block {at}: {} and {} differ", leg.url, other.url))?;
    }
    Ok(differences)
}

fn scrub(args: &LegsArgs, control: &Control) -> Result<(), Failure> {
    let legs = open_made(args, control)?;
    let compared = comparable(&legs)?;
    let (leg, data_bytes) = (compared[0].0, compared[0].1.data_bytes);
    let block = u64::from(leg.block_bytes());
    let (mut at, mut differences) = (0, 0);
    while at < data_bytes {
        let len = PIECE_BYTES.min(data_bytes - at);
        let (mut ours, mut theirs) = (vec![0; len as usize], vec![0; len as usize]);
        leg.disk.read(at / block, &mut ours)?;
        for (other, _) in &compared[1..] {
            differences += compare(at / block, (leg, &ours), other, &mut theirs)?;
        }
        at += len;
    }
    if differences > 0 {
        return Err(Failure::new(
            Failure::VERIFICATION,
            format!("{differences} blocks differ; replace the leg whose data is wrong"),
        ));
    }
    let data = format_size(data_bytes);
    writeln!(std::io::stdout(), "{data} of {} legs are equal", compared.len())?;
    Ok(())
}

fn replace(args: &ReplaceArgs, control: &Control) -> Result<(), Failure> {
    let legs = open_all(&[args.good.clone(), args.new.clone()], &args.connect, control)?;
    let [good, new] = &legs[..] else { return Ok(()) };
    if good.block_bytes() != new.block_bytes() {
        return Err(usage(format!("{} has other blocks than {}", new.url, good.url)));
    }
    let area = admin::replace(
        &good.url,
        &good.read_area()?,
        good.block_bytes(),
        args.leg,
        new.disk.geometry().whole_bytes(),
    )?;
    if !args.destroy_data {
        new.refuse_data("")?;
    }
    new.write_area(&area)?;
    writeln!(
        std::io::stdout(),
        "{} is leg {} now; it is copied to when the mirror is open",
        new.url,
        args.leg
    )?;
    Ok(())
}
