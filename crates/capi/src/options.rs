//! Options for opening a device, by name: those of `weft connect`, and some of the library.

use crate::failure::CallFailure;
use crate::limits::{LOOPS_MAX, OPTIONS_MAX, POOL_BYTES, POOL_BYTES_MIN, TEXT_BYTES_MAX};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use weft_block::{ErrorKind, units};
use weft_endpoint::identity::HostIdentity;
use weft_endpoint::paths::{Failover, IoPolicy};
use weft_endpoint::source::HostSecrets;
use weft_endpoint::{ConnectOptions, Control};
use weft_io::limits::POOL_BYTES_DEFAULT;
use weft_proto::iscsi::chap::ChapSecret;
use weft_proto::iscsi::text::Name;
use weft_server::psk::{self, WantedPsk};
use weft_server::{Error, dhchap, secret, values};

/// The options that were set so far.
#[derive(Clone)]
pub struct LibraryOptions {
    connect: ConnectOptions,
    queues: u16,
    pool_bytes: usize,
    polls: bool,
    has_threads: bool,
    hostnqn: Option<String>,
    hostid: Option<String>,
    tls: bool,
    tls_key_file: Option<PathBuf>,
    keyring: Option<String>,
    no_kernel_tls: bool,
    dhchap_secret_file: Option<PathBuf>,
    dhchap_ctrl_secret_file: Option<PathBuf>,
    set: usize,
    cancelled: Arc<AtomicBool>,
}

impl Default for LibraryOptions {
    fn default() -> Self {
        Self {
            connect: ConnectOptions::default(),
            queues: 1,
            pool_bytes: POOL_BYTES,
            polls: false,
            has_threads: true,
            hostnqn: None,
            hostid: None,
            tls: false,
            tls_key_file: None,
            keyring: None,
            no_kernel_tls: false,
            dhchap_secret_file: None,
            dhchap_ctrl_secret_file: None,
            set: 0,
            cancelled: Arc::default(),
        }
    }
}

type Set = fn(&mut LibraryOptions, &str) -> Result<(), String>;

/// All options.
pub const OPTIONS: [(&str, Set); 41] = [
    ("chap-secret-file", |of, text| put(&mut of.connect.iscsi.secret, chap_secret(text))),
    ("chap-user", |of, text| put(&mut of.connect.iscsi.user, name(text))),
    ("concat", |of, text| flag(text, &mut of.connect.tls.concat)),
    ("connect-timeout", |of, text| duration(text, &mut of.connect.connect_timeout)),
    ("ctrl-loss-tmo", |of, text| limit(text, &mut of.connect.paths.ctrl_loss_timeout)),
    ("data-digest", |of, text| flag(text, &mut of.connect.data_digest)),
    ("dhchap-ctrl-secret-file", |of, text| put(&mut of.dhchap_ctrl_secret_file, file(text))),
    ("dhchap-secret-file", |of, text| put(&mut of.dhchap_secret_file, file(text))),
    ("disk-timeout", |of, text| duration(text, &mut of.connect.disk_timeout)),
    ("failover", |of, text| {
        let known = [("safe", Failover::Safe), ("fast", Failover::Fast)];
        one_of(text, &known, &mut of.connect.paths.failover)
    }),
    ("fast-io-fail-tmo", |of, text| limit(text, &mut of.connect.paths.fast_io_fail_timeout)),
    ("hdr-digest", |of, text| flag(text, &mut of.connect.hdr_digest)),
    ("hostid", |of, text| put(&mut of.hostid, name(text))),
    ("hostnqn", |of, text| {
        values::parse_nqn(text).map_err(said)?;
        put(&mut of.hostnqn, name(text))
    }),
    ("initiator-name", |of, text| {
        put(
            &mut of.connect.iscsi.initiator_name,
            Name::new(text).map(Some).map_err(|e| e.to_string()),
        )
    }),
    ("io-timeout", |of, text| duration(text, &mut of.connect.io_timeout)),
    ("iopolicy", |of, text| {
        let known = [
            ("numa", IoPolicy::Numa),
            ("round-robin", IoPolicy::RoundRobin),
            ("queue-depth", IoPolicy::QueueDepth),
            ("latency", IoPolicy::Latency),
        ];
        one_of(text, &known, &mut of.connect.paths.io_policy)
    }),
    ("keep-alive-tmo", |of, text| {
        let seconds = number(text, 0, u64::from(u32::MAX / 1000))?;
        of.connect.keep_alive_ms = seconds as u32 * 1000;
        Ok(())
    }),
    ("keyring", |of, text| put(&mut of.keyring, name(text))),
    ("no-kernel-tls", |of, text| flag(text, &mut of.no_kernel_tls)),
    ("only-writer", |of, text| flag(text, &mut of.connect.paths.only_writer)),
    ("path", |of, text| {
        of.connect.paths.further.push(text.to_owned());
        Ok(())
    }),
    ("poll", |of, text| flag(text, &mut of.polls)),
    ("pool", |of, text| {
        of.pool_bytes = size(text, POOL_BYTES_MIN, POOL_BYTES_DEFAULT as u64 * 16)? as usize;
        Ok(())
    }),
    ("queue-size", |of, text| {
        of.connect.queue_size = number(text, 2, 1024)? as u16;
        Ok(())
    }),
    ("queues", |of, text| {
        of.queues = number(text, 1, LOOPS_MAX.into())? as u16;
        Ok(())
    }),
    ("quiesce-time", |of, text| duration(text, &mut of.connect.quiesce_time)),
    ("rdma-shared-key", |of, text| flag(text, &mut of.connect.rdma_shared_key)),
    ("read-only", |of, text| flag(text, &mut of.connect.read_only)),
    ("reconnect-delay", |of, text| {
        of.connect.paths.reconnect_delay = Duration::from_secs(number(text, 1, 3600)?);
        Ok(())
    }),
    ("reserve", |of, text| flag(text, &mut of.connect.paths.reserve)),
    ("same-data", |of, text| flag(text, &mut of.connect.paths.same_data)),
    ("target-chap-secret-file", |of, text| {
        put(&mut of.connect.iscsi.target_secret, chap_secret(text))
    }),
    ("target-chap-user", |of, text| put(&mut of.connect.iscsi.target_user, name(text))),
    ("threads", |of, text| flag(text, &mut of.has_threads)),
    ("tls", |of, text| flag(text, &mut of.tls)),
    ("tls-ca-file", |of, text| put(&mut of.connect.tls.ca, file(text))),
    ("tls-cert-file", |of, text| put(&mut of.connect.tls.certificate, file(text))),
    ("tls-cert-key-file", |of, text| put(&mut of.connect.tls.key, file(text))),
    ("tls-key-file", |of, text| put(&mut of.tls_key_file, file(text))),
    ("unflushed", |of, text| {
        of.connect.paths.unflushed_bytes = size(text, 0, usize::MAX as u64)? as usize;
        Ok(())
    }),
];

fn said(error: impl ToString) -> String {
    error.to_string()
}

fn put<T>(to: &mut Option<T>, value: Result<Option<T>, String>) -> Result<(), String> {
    *to = value?;
    Ok(())
}

fn name(text: &str) -> Result<Option<String>, String> {
    Ok(Some(text.to_owned()))
}

fn file(text: &str) -> Result<Option<PathBuf>, String> {
    if text.is_empty() { Err("use the path of a file".into()) } else { Ok(Some(text.into())) }
}

fn chap_secret(text: &str) -> Result<Option<ChapSecret>, String> {
    secret::from_file(Path::new(text)).map(|secret| Some(secret.into())).map_err(said)
}

fn flag(text: &str, to: &mut bool) -> Result<(), String> {
    one_of(text, &[("on", true), ("off", false)], to)
}

fn one_of<T: Copy>(text: &str, known: &[(&str, T)], to: &mut T) -> Result<(), String> {
    match known.iter().find(|(name, _)| *name == text) {
        Some((_, value)) => {
            *to = *value;
            Ok(())
        }
        None => {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            Err(format!("use {}", names.join(" or ")))
        }
    }
}

fn number(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("use a whole number from {least} to {most}"))
}

fn size(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let bytes = units::parse_size(text).map_err(said)?;
    let range = (least..=most).contains(&bytes).then_some(bytes);
    range.ok_or_else(|| {
        format!("use a size from {} to {}", units::format_size(least), units::format_size(most))
    })
}

fn duration(text: &str, to: &mut Duration) -> Result<(), String> {
    *to = units::parse_duration(text).map_err(said)?;
    Ok(())
}

/// Seconds, or -1 for ever.
fn limit(text: &str, to: &mut Option<Duration>) -> Result<(), String> {
    let seconds = text.parse::<i64>().ok().filter(|seconds| *seconds >= -1);
    let seconds = seconds.ok_or("use a whole number of seconds, or -1 for ever")?;
    *to = u64::try_from(seconds).ok().map(Duration::from_secs);
    Ok(())
}

impl LibraryOptions {
    /// Returns the flag that cancels the opening of devices with these options. Copies share it.
    pub fn cancelled(&self) -> &Arc<AtomicBool> {
        &self.cancelled
    }

    /// Sets an option. `path` may be set several times, each adds one; of the others the last value
    /// counts.
    ///
    /// # Errors
    /// There is no such option, or it has no such value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), CallFailure> {
        let Some((_, set)) = OPTIONS.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = OPTIONS.iter().map(|(known, _)| *known).collect();
            let text = format!("there is no option \"{name}\"; there are {}", known.join(", "));
            return Err(CallFailure::usage(text));
        };
        if self.set == OPTIONS_MAX || value.len() > TEXT_BYTES_MAX {
            return Err(CallFailure::usage(format!(
                "{name}: too many options, or too long a value"
            )));
        }
        set(self, value).map_err(|why| {
            CallFailure::usage(format!("\"{value}\" is not a value of {name}: {why}"))
        })?;
        self.set += 1;
        Ok(())
    }

    /// The options for opening a device whose connections belong to `control`.
    ///
    /// # Errors
    /// Options do not go together; a file cannot be read, or is not a secret.
    pub fn connect(&self, control: &Control) -> Result<ConnectOptions, Error> {
        let mut connect = ConnectOptions {
            control: control.clone(),
            nr_io_queues: self.queues,
            host: self.host()?,
            secrets: self.secrets()?,
            ..self.connect.clone()
        };
        let usage = |text: &str| Err(Error::new(ErrorKind::Usage, text));
        if connect.paths.reserve && connect.paths.only_writer {
            return usage("reserve and only-writer exclude each other");
        }
        if connect.tls.concat && (self.tls || connect.secrets.host.is_none()) {
            return usage("concat needs dhchap-secret-file, and excludes tls");
        }
        if !self.tls && (self.tls_key_file.is_some() || self.keyring.is_some()) {
            return usage("tls-key-file and keyring are for tls=on");
        }
        if self.tls_key_file.is_some() && self.keyring.is_some() {
            return usage("tls-key-file and keyring exclude each other");
        }
        connect.tls.concat_in_user_space = self.no_kernel_tls;
        if self.tls {
            let (file, keyring) = (self.tls_key_file.as_deref(), self.keyring.as_deref());
            let keys = psk::wanted(&WantedPsk { file, keyring, ..WantedPsk::default() })?;
            let keys = if self.no_kernel_tls { keys.in_user_space() } else { keys };
            connect.tls.psk = Some(keys);
        }
        Ok(connect)
    }

    fn host(&self) -> Result<Option<HostIdentity>, Error> {
        let nqn = self.hostnqn.as_deref().map(values::parse_nqn).transpose()?;
        match (nqn, &self.hostid) {
            (nqn, Some(id)) => HostIdentity::identified(nqn, id).map(Some),
            (Some(nqn), None) => HostIdentity::named(nqn).map(Some),
            (None, None) => Ok(None),
        }
    }

    fn secrets(&self) -> Result<HostSecrets, Error> {
        let read = |file: &Option<PathBuf>| file.as_deref().map(dhchap::read).transpose();
        let (host, controller) =
            (read(&self.dhchap_secret_file)?, read(&self.dhchap_ctrl_secret_file)?);
        if host.is_none() && controller.is_some() {
            let text = "dhchap-ctrl-secret-file is of no use without dhchap-secret-file";
            return Err(Error::new(ErrorKind::Usage, text));
        }
        dhchap::check_distinct(host.iter(), controller.as_ref())?;
        Ok(HostSecrets { host, controller, ..HostSecrets::default() })
    }

    /// Event loops of the device, which has as many I/O queues.
    pub fn queues(&self) -> u16 {
        self.queues
    }

    /// Payload memory of each event loop, bytes.
    pub fn pool_bytes(&self) -> usize {
        self.pool_bytes
    }

    /// Returns whether the device has event loops of its own.
    pub fn has_threads(&self) -> bool {
        self.has_threads
    }

    /// Returns whether the event loops never sleep.
    pub fn polls(&self) -> bool {
        self.polls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_properties_are_in_order() {
        assert!(OPTIONS.is_sorted_by_key(|(name, _)| *name));
        assert!(crate::properties::PROPERTIES.is_sorted_by_key(|(name, _)| *name));
    }

    #[test]
    fn values_are_checked_when_they_are_set() {
        let mut options = LibraryOptions::default();
        for (name, value) in [
            ("queues", "4"),
            ("ctrl-loss-tmo", "-1"),
            ("connect-timeout", "2s"),
            ("hdr-digest", "on"),
            ("pool", "2MiB"),
            ("iopolicy", "latency"),
            ("hostnqn", "nqn.2026-01.example:host"),
            ("path", "nbd://h/x"),
            ("path", "nbd://i/x"),
        ] {
            options.set(name, value).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        }
        let connect = options.connect(&Control::new()).unwrap();
        assert_eq!((connect.nr_io_queues, connect.paths.further.len()), (4, 2));
        assert_eq!(connect.host.unwrap().nqn.as_str(), "nqn.2026-01.example:host");
        for (name, value) in [
            ("queues", "0"),
            ("ctrl-loss-tmo", "-2"),
            ("connect-timeout", "soon"),
            ("hdr-digest", "yes"),
            ("pool", "1KiB"),
            ("colour", "red"),
        ] {
            assert!(options.set(name, value).is_err(), "{name}");
        }
    }

    #[test]
    fn options_that_do_not_go_together_are_refused() {
        for wrong in [
            &[("reserve", "on"), ("only-writer", "on")][..],
            &[("concat", "on")],
            &[("keyring", ".nvme")],
            &[("dhchap-ctrl-secret-file", "/nonexistent")],
        ] {
            let mut options = LibraryOptions::default();
            wrong.iter().for_each(|(name, value)| options.set(name, value).unwrap());
            assert!(options.connect(&Control::new()).is_err(), "{wrong:?}");
        }
    }
}
