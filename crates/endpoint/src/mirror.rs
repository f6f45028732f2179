//! `mirror:` URLs: the legs are opened like any other source, except that they end with their
//! connection, so that the mirror notices and goes on without them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use uuid::Uuid;
use weft_block::grammar::{path, sources};
use weft_block::mirror::{self, HotLimit, LegSource, MirrorUrl};
use weft_block::{Error, ErrorKind, Opening};
use weft_connection::url::without_secret;
use weft_initiator::paths::PathOptions;
use weft_initiator::source::ConnectOptions;

/// The opener of a mirror, as its labels name it to others.
#[derive(Clone, Debug)]
pub struct Opener {
    /// The name of this host.
    pub host: String,
    /// Seconds since 1970.
    pub time: u64,
    /// Maximum amount that is marked at a time, if the URL does not give one.
    pub hot: HotLimit,
}

impl Opener {
    /// This process.
    fn here() -> Self {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self { host: host_name(), time, hot: HotLimit::default() }
    }
}

/// What opens the state file: its size suffices, and it is made if it does not exist.
fn state_url(path: &str) -> String {
    format!("file:{path},size=64KiB")
}

fn host_name() -> String {
    let system = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name =
        system.map(|name| name.trim().to_owned()).or_else(|| std::env::var("COMPUTERNAME").ok());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "an unnamed host".into())
}

/// Begins to open a mirror; `None` if this is not the URL of one.
pub(crate) fn begin(url: &str, options: &ConnectOptions) -> Result<Option<Opening>, Error> {
    let Some(parsed) = MirrorUrl::parse(url)? else { return Ok(None) };
    let state = parsed.state.map(|path| leg(&state_url(path), options));
    begin_as(url, &parsed, state, Opener::here(), options).map(Some)
}

/// Whether a leg is in this host, with everything that it consists of.
fn is_local(leg: &str) -> bool {
    sources(leg).iter().all(|source| path(source.url).is_some() || source.url.starts_with("ram:"))
}

/// Queues of a leg: one for the mirror's home, and one for each loop. An iSCSI leg has one session,
/// as each would be a registrant of its own in reservations.
fn queues(leg: &str, options: &ConnectOptions) -> u16 {
    let is_iscsi = sources(leg).iter().any(|source| source.url.starts_with("iscsi:"));
    if is_iscsi { 1 } else { options.nr_io_queues.saturating_add(1) }
}

/// A source of a mirror, which ends with its connection. Whoever opens a mirror reserves its legs,
/// each time as another host.
fn leg(url: &str, options: &ConnectOptions) -> LegSource {
    let paths = PathOptions {
        further: Vec::new(),
        ctrl_loss_timeout: Some(Duration::ZERO),
        reserve: false,
        ..options.paths.clone()
    };
    let nr_io_queues = queues(url, options);
    let options = ConnectOptions { paths, nr_io_queues, in_mirror: true, ..options.clone() };
    let (shown, url) = (without_secret(url), url.to_owned());
    LegSource {
        url: shown,
        is_remote: !is_local(&url),
        open: Box::new(move |opener| {
            open_as(&url, ConnectOptions { opener: Some(opener), ..options.clone() })
        }),
    }
}

/// Opens a leg as the opener of the mirror, or, where the target gives this host an identifier and
/// refuses others, as this host.
fn open_as(url: &str, options: ConnectOptions) -> Result<Opening, Error> {
    let (opening, url) = (crate::open::begin(url, &options)?, url.to_owned());
    Ok(Opening::of(async move {
        match opening.await {
            Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                crate::open::begin(&url, &ConnectOptions { opener: None, ..options })?
                    .await
                    .map_err(|_| e)
            }
            outcome => outcome,
        }
    }))
}

/// Begins to open a mirror with the legs of its URL, any state file, and as anybody.
///
/// # Errors
/// What is wrong with the legs or the options.
pub fn begin_as(
    url: &str,
    parsed: &MirrorUrl<'_>,
    state: Option<LegSource>,
    opener: Opener,
    options: &ConnectOptions,
) -> Result<Opening, Error> {
    let shown = without_secret(url);
    if options.shared {
        let text = "a mirror has one opener at a time, so it cannot be served by several processes (--shared)";
        return Err(Error::new(ErrorKind::Usage, format!("{shown}: {text}")));
    }
    let random = options.control.identities().random::<24>();
    let (name, seed) = random.split_at(16);
    let name = Uuid::from_slice(name).unwrap_or_default();
    // The longest that a target may go on with what a process that has ended sent to it: as long as
    // it waits for a sign of life, and a while.
    let remote = options.quiesce_time + 3 * Duration::from_millis(options.keep_alive_ms.into());
    let settle = if parsed.legs.iter().all(|leg| is_local(leg)) { Duration::ZERO } else { remote };
    mirror::begin(
        &options.control.remote()?,
        mirror::MirrorOptions {
            url: shown,
            legs: parsed.legs.iter().map(|url| leg(url, options)).collect(),
            state,
            force: parsed.force,
            settle,
            patience: options.paths.fast_io_fail_timeout,
            opener: name,
            host: opener.host,
            time: opener.time,
            seed: seed.iter().fold(0, |seed, byte| seed << 8 | u64::from(*byte)),
            hot: parsed.hot.map_or(opener.hot, HotLimit::Bytes),
            guard: Box::new(options.control.task()),
        },
    )
}
