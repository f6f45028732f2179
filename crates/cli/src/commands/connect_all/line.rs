//! A discovery controller or a subsystem with its options, as a line of nvme-cli's discovery.conf
//! has them.

use crate::args::given_options::GivenOptions;
use crate::connection::{Address, ConnectArgs};
use crate::limits::CONTROLLERS_FILE_BYTES_MAX;
use crate::process::exit::Failure;
use clap::{Args, Command, FromArgMatches};
use std::io::Read;
use std::path::{Path, PathBuf};
use uuid::Uuid;
use weft_block::{Error, ErrorKind};
use weft_endpoint::identity::state_dir;
use weft_endpoint::url::NvmeUrl;
use weft_proto::nvme::types::Nqn;
use weft_server::secret::create_private;

/// See the module.
#[derive(Debug)]
pub struct DiscoveryLine {
    /// Its origin, for messages: a URL, or a line of a file.
    pub origin: String,
    pub address: Address,
    pub connect: ConnectArgs,
    /// The options in it, and of the command.
    pub given: GivenOptions,
}

/// Options of nvme-cli that are about the kernel's host, or about what is printed.
#[derive(Args, Debug)]
struct Foreign {
    #[arg(short = 'w', long)]
    host_traddr: Option<String>,
    #[arg(short = 'f', long)]
    host_iface: Option<String>,
    #[arg(short = 'W', long)]
    nr_write_queues: Option<String>,
    #[arg(short = 'P', long)]
    nr_poll_queues: Option<String>,
    #[arg(short = 'T', long)]
    tos: Option<String>,
    #[arg(short = 'p', long, num_args = 0..=1, default_missing_value = "true")]
    persistent: Option<String>,
    #[arg(short = 'D', long)]
    duplicate_connect: bool,
    #[arg(short = 'd', long)]
    disable_sqflow: bool,
    #[arg(long)]
    quiet: bool,
    #[arg(short = 'm', long)]
    matching: bool,
}

impl Foreign {
    /// Those that would change how a connection is made.
    fn ignored(&self) -> Vec<&'static str> {
        let all = [
            (self.host_traddr.is_some(), "--host-traddr"),
            (self.host_iface.is_some(), "--host-iface"),
            (self.tos.is_some(), "--tos"),
            (self.matching, "--matching"),
        ];
        all.into_iter().filter_map(|(given, name)| given.then_some(name)).collect()
    }
}

impl DiscoveryLine {
    /// That of a command.
    pub fn of(address: &Address, connect: &GivenOptions) -> Result<Self, Failure> {
        let origin = address.discovery_url()?.to_string();
        let words: Vec<String> = connect.words().map(str::to_owned).collect();
        Ok(Self { address: address.clone(), ..Self::parse(&words, origin, connect)? })
    }

    /// Reads the words of a file; keys in them come into files of their own.
    pub fn in_file(
        words: &[String],
        origin: String,
        others: &GivenOptions,
    ) -> Result<Self, Failure> {
        let words = in_files(words).map_err(|e| e.about(&origin))?;
        Self::parse(&words, origin, others)
    }

    /// Reads the words of a line; `others` stand for options that are not among them.
    pub fn parse(words: &[String], origin: String, others: &GivenOptions) -> Result<Self, Failure> {
        let command = Command::new("weft").no_binary_name(true).disable_help_flag(true);
        let command =
            Foreign::augment_args(ConnectArgs::augment_args(Address::augment_args(command)));
        let wrong = |e: clap::Error| {
            let said = e.to_string();
            let first = said.lines().next().unwrap_or_default();
            let text = format!("{origin}: {}", first.trim_start_matches("error: "));
            Failure::of(ErrorKind::Usage, text)
        };
        let matches = command.clone().try_get_matches_from(words).map_err(wrong)?;
        let foreign = Foreign::from_arg_matches(&matches).map_err(wrong)?.ignored();
        if !foreign.is_empty() {
            tracing::warn!("{origin}: weft has no {}", foreign.join(", "));
        }
        let given = GivenOptions::of::<ConnectArgs>(&matches).or(others);
        let all = given.words().map(str::to_owned);
        let of_address = GivenOptions::of::<Address>(&matches);
        let all: Vec<String> = of_address.words().map(str::to_owned).chain(all).collect();
        let matches = command.try_get_matches_from(all).map_err(wrong)?;
        let address = Address::from_arg_matches(&matches).map_err(wrong)?;
        let connect = ConnectArgs::from_arg_matches(&matches).map_err(wrong)?;
        Ok(Self { address, connect, given, origin })
    }

    /// The same, if it says where to connect.
    fn checked(self) -> Result<Self, Failure> {
        match self.address.url() {
            Ok(_) => Ok(self),
            Err(e) => Err(e.about(&self.origin)),
        }
    }

    /// The subsystem that it names, if it is not a discovery controller.
    pub fn subsystem(&self) -> Result<Option<NvmeUrl>, Failure> {
        let url = self.address.url()?;
        let is_other = |nqn: &Nqn| nqn.as_str() != Nqn::DISCOVERY;
        Ok(url.subsystem.as_ref().is_some_and(is_other).then_some(url))
    }
}

/// The bytes of a file, as many as it may have.
pub fn bytes_of(path: &Path) -> Result<Vec<u8>, Failure> {
    let cannot = |e: std::io::Error| {
        weft_block::Error::io(format!("cannot read {}: {e}", path.display()), e)
    };
    let (mut bytes, most) = (Vec::new(), CONTROLLERS_FILE_BYTES_MAX);
    let file = std::fs::File::open(path).map_err(cannot)?;
    file.take(most + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > most {
        let text = format!("{} is longer than {most} bytes", path.display());
        return Err(Failure::of(ErrorKind::Usage, text));
    }
    Ok(bytes)
}

/// A line of a file, unless it cannot be used: then the log says why, and the other lines count.
pub fn used(line: Result<DiscoveryLine, Failure>) -> Option<DiscoveryLine> {
    let skip = |why: &Failure| {
        tracing::warn!("{}; this is skipped", without_keys(&why.to_string()));
    };
    line.and_then(DiscoveryLine::checked).inspect_err(skip).ok()
}

/// Beginnings of keys, each of which can stand where none is expected.
const KEYS: [&str; 3] = ["DHHC-1:", "NVMeTLSkey-1:", "NVMeTLSkey-0:"];

/// A text for the log, with an ellipsis in place of each key.
pub fn without_keys(text: &str) -> String {
    let is_of_key = |c: char| c.is_ascii_alphanumeric() || "+/=:".contains(c);
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(at) = KEYS.iter().filter_map(|start| Some(rest.find(start)? + start.len())).min()
    {
        shown.push_str(&rest[..at]);
        shown.push('…');
        rest = rest[at..].trim_start_matches(is_of_key);
    }
    shown + rest
}

/// The lines of a file in the format of discovery.conf that can be used.
pub fn of_file(path: &Path, others: &GivenOptions) -> Result<Vec<DiscoveryLine>, Failure> {
    let bytes = bytes_of(path)?;
    let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with(b"#"));
    let parse = |(n, line): (usize, &[u8])| {
        let origin = format!("{}:{}", path.display(), n + 1);
        let Ok(text) = str::from_utf8(line) else {
            return Err(Failure::of(ErrorKind::Usage, format!("{origin}: this is not UTF-8")));
        };
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        DiscoveryLine::in_file(&words, origin, others)
    };
    Ok(lines.filter_map(|line| used(parse(line))).collect())
}

// The files in which keys are kept that stand in configurations of nvme-cli: connections name keys
// by files, and no command line may hold one.

/// An option of nvme-cli that can hold a key.
struct KeyOption {
    names: &'static [&'static str],
    short: Option<char>,
    /// The option that names a file instead.
    instead: &'static str,
    /// Returns whether a value is a key, and no name of one.
    is_key: fn(&str) -> bool,
}

/// All of them.
static OPTIONS: [KeyOption; 3] = [
    KeyOption {
        names: &["dhchap-secret"],
        short: Some('S'),
        instead: "dhchap-secret-file",
        is_key: |value| !value.starts_with('@'),
    },
    KeyOption {
        names: &["dhchap-ctrl-secret"],
        short: Some('C'),
        instead: "dhchap-ctrl-secret-file",
        is_key: |value| !value.starts_with('@'),
    },
    KeyOption {
        names: &["tls-key", "tls_key"],
        short: None,
        instead: "tls-key-file",
        is_key: |value| value.starts_with("NVMeTLSkey-1:"),
    },
];

/// The words of a line, with files in place of the keys in it.
///
/// # Errors
/// A key cannot be kept.
pub fn in_files(words: &[String]) -> Result<Vec<String>, Failure> {
    let mut with_files = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let Some((option, value)) = OPTIONS.iter().find_map(|of| Some((of, of.value_in(word)?)))
        else {
            with_files.push(word.clone());
            continue;
        };
        let value = value.or_else(|| rest.next().map(String::as_str));
        match value.filter(|value| (option.is_key)(value)) {
            Some(key) => {
                with_files.push(format!("--{}={}", option.instead, kept(key)?.display()));
            }
            None => {
                with_files.push(format!("--{}", option.names[0]));
                with_files.extend(value.map(str::to_owned));
            }
        }
    }
    Ok(with_files)
}

impl KeyOption {
    /// Returns `Some` if a word is this option, with the value if that is in the same word.
    fn value_in<'a>(&self, word: &'a str) -> Option<Option<&'a str>> {
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            return self.names.contains(&name).then_some(value);
        }
        let value = word.strip_prefix('-')?.strip_prefix(self.short?)?;
        let value = value.strip_prefix('=').unwrap_or(value);
        Some(Some(value).filter(|value| !value.is_empty()))
    }
}

/// The file in which a key is kept.
pub fn kept(key: &str) -> Result<PathBuf, Error> {
    let directory = state_dir().ok_or_else(|| {
        let text =
            "there is no place for keys of a configuration: set WEFT_STATE_DIR to a directory";
        Error::new(ErrorKind::NotFound, text)
    })?;
    let directory = directory.join("keys");
    std::fs::create_dir_all(&directory)
        .map_err(|e| Error::io(format!("cannot make {}: {e}", directory.display()), e))?;
    let name = Uuid::new_v5(&Uuid::NAMESPACE_OID, key.as_bytes()).simple().to_string();
    let file = directory.join(format!("{name}.dhchap"));
    if !file.exists() {
        create_private(&file, key)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_stands_in_a_wrong_place_is_not_in_the_message() {
        for (line, shown) in [
            ("nvme+tcp://192.0.2.1 DHHC-1:00:c2Vj+/ZXQ=:", "'DHHC-1:…'"),
            ("-t DHHC-1:00:c2VjcmV0: -a 192.0.2.1", "'DHHC-1:…'"),
            ("-t tcp NVMeTLSkey-1:01:c2VjcmV0:", ""),
            ("-t tcp -a DHHC-1:00:c2VjcmV0:", ""),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let parsed =
                DiscoveryLine::parse(&words, "discovery.conf:1".into(), &GivenOptions::default());
            let said =
                without_keys(&parsed.and_then(DiscoveryLine::checked).unwrap_err().to_string());
            assert!(said.contains(shown) && !said.contains("c2V"), "{said}");
        }
        assert_eq!(without_keys("DHHC-1:a DHHC-1: x"), "DHHC-1:… DHHC-1:… x");
        assert_eq!(without_keys("discovery.conf:1: no key"), "discovery.conf:1: no key");
    }

    #[test]
    fn options_with_keys_are_known_in_every_form() {
        let of = |word: &'static str| {
            OPTIONS.iter().find_map(|of| Some((of.instead, of.value_in(word)?)))
        };
        for word in ["-SDHHC-1:a", "-S=DHHC-1:a", "--dhchap-secret=DHHC-1:a"] {
            assert_eq!(of(word), Some(("dhchap-secret-file", Some("DHHC-1:a"))), "{word}");
        }
        for word in ["-C", "--dhchap-ctrl-secret"] {
            assert_eq!(of(word), Some(("dhchap-ctrl-secret-file", None)), "{word}");
        }
        assert_eq!(of("--tls_key=x"), Some(("tls-key-file", Some("x"))));
        for word in ["--dhchap-secret-file=x", "-s", "8009", "--tls", "-", "--", ""] {
            assert_eq!(of(word), None, "{word}");
        }
    }

    #[test]
    fn names_of_keys_stay_as_they_are() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (text, same) in [
            ("-t tcp -S @/a -C", "-t tcp --dhchap-secret @/a --dhchap-ctrl-secret"),
            ("--tls_key=0x2f --tls", "--tls-key 0x2f --tls"),
            ("-a 192.0.2.1 -g", "-a 192.0.2.1 -g"),
        ] {
            assert_eq!(in_files(&words(text)).unwrap(), words(same), "{text}");
        }
    }
}
