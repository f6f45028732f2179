//! URLs of NBD, as libnbd and others write them (`doc/uri.md` of the Network Block Device project):
//! `nbd://HOST[:PORT]/NAME`, `nbd+unix:///NAME?socket=PATH`, and `nbds` for either with TLS.
//!
//! A parameter may also stand as an option of a source does, behind a comma:
//! `nbds+unix:///NAME,socket=PATH,tls-certificates=DIR`. A shell takes that as it is, which it does
//! not do with the `&` between two parameters. A comma in a name or a path that is followed by what
//! looks like an option is written `%2C`.

use super::HostPort;
use super::percent::{Encoded, decode};
use super::secret::{NO_USER, holds_user, without_secret};
use std::fmt;
use std::path::PathBuf;
use weft_block::{Error, ErrorKind, grammar};

/// Schemes of NBD URLs.
pub const NBD_SCHEMES: [&str; 4] = ["nbd://", "nbds://", "nbd+unix://", "nbds+unix://"];

/// Port of NBD that IANA assigned.
pub const NBD_PORT: u16 = 10809;

/// Location of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NbdPlace {
    /// A host and port.
    Tcp(HostPort),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// An export, or a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NbdUrl {
    /// The server.
    pub place: NbdPlace,
    /// TLS has to be used.
    pub tls: bool,
    /// Name of the export; empty for the default one.
    pub export: String,
    /// Directory of certificates (`tls-certificates`).
    pub certificates: Option<PathBuf>,
    /// Name in the server's certificate, where that is not the host's (`tls-hostname`).
    pub server_name: Option<String>,
}

/// The parameters behind the question mark and behind commas.
#[derive(Default)]
struct Parameters {
    socket: Option<String>,
    certificates: Option<String>,
    server_name: Option<String>,
}

impl Parameters {
    fn parse<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Self, String> {
        let mut found = Self::default();
        for (name, value) in pairs {
            let place = match name {
                "socket" => &mut found.socket,
                "tls-certificates" => &mut found.certificates,
                "tls-hostname" => &mut found.server_name,
                "tls-psk-file" | "tls-username" => {
                    return Err(
                        "pre-shared keys are not supported; use tls-certificates=DIR".into()
                    );
                }
                _ => {
                    return Err(format!(
                        "unknown parameter {name}=; use socket=, tls-certificates= or tls-hostname="
                    ));
                }
            };
            if value.is_empty() {
                return Err(format!("{name}= has no value"));
            }
            if place.replace(decode(value)?).is_some() {
                return Err(format!("{name}= is given twice; use it once"));
            }
        }
        Ok(found)
    }
}

impl NbdUrl {
    /// Reads the URL.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let shown = without_secret(url);
        let wrong = |why: String| {
            let text = format!(
                "\"{shown}\" is not nbd://HOST[:PORT]/NAME or nbd+unix:///NAME?socket=PATH: {why}"
            );
            Error::new(ErrorKind::Usage, text)
        };
        let scheme = NBD_SCHEMES
            .iter()
            .find(|scheme| url.starts_with(**scheme))
            .ok_or_else(|| wrong("wrong scheme".into()))?;
        if holds_user(&url[scheme.len()..]) {
            return Err(wrong(NO_USER.into()));
        }
        let (main, options) = grammar::options(&url[scheme.len()..]);
        let (rest, query) = main.split_once('?').unwrap_or((main, ""));
        let query = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let export = decode(path).map_err(wrong)?;
        let Parameters { socket, certificates, server_name } =
            Parameters::parse(query.chain(options)).map_err(wrong)?;
        let place = match (scheme.ends_with("+unix://"), socket) {
            (true, Some(_)) if !authority.is_empty() => {
                return Err(wrong("a Unix socket has no host; start with three slashes".into()));
            }
            (true, Some(path)) => NbdPlace::Unix(path.into()),
            (true, None) => return Err(wrong("socket=PATH is missing".into())),
            (false, Some(_)) => return Err(wrong("socket= is for nbd+unix://".into())),
            (false, None) => NbdPlace::Tcp(
                HostPort::parse(authority, NBD_PORT).map_err(|e| wrong(e.to_string()))?,
            ),
        };
        let tls = scheme.starts_with("nbds");
        if !tls && (certificates.is_some() || server_name.is_some()) {
            return Err(wrong("parameters of TLS are for nbds:// and nbds+unix://".into()));
        }
        Ok(Self { place, tls, export, certificates: certificates.map(PathBuf::from), server_name })
    }

    /// The same server's export of another name.
    #[must_use]
    pub fn with_export(&self, name: &str) -> Self {
        Self { export: name.to_owned(), ..self.clone() }
    }
}

impl fmt::Display for NbdUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "nbds" } else { "nbd" };
        let mut separator = '?';
        match &self.place {
            NbdPlace::Tcp(address) => {
                write!(f, "{scheme}://{address}")?;
                if !self.export.is_empty() {
                    write!(f, "/{}", Encoded::path(&self.export))?;
                }
            }
            NbdPlace::Unix(path) => {
                write!(
                    f,
                    "{scheme}+unix:///{}?socket={}",
                    Encoded::path(&self.export),
                    Encoded::path(&path.to_string_lossy())
                )?;
                separator = '&';
            }
        }
        if let Some(directory) = &self.certificates {
            write!(
                f,
                "{separator}tls-certificates={}",
                Encoded::path(&directory.to_string_lossy())
            )?;
            separator = '&';
        }
        if let Some(name) = &self.server_name {
            write!(f, "{separator}tls-hostname={}", Encoded::path(name))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_survive_the_round_trip() {
        for text in [
            "nbd://127.0.0.1:10809/disk",
            "nbd://[::1]:10810/a/b",
            "nbd://storage.example:10809",
            "nbd://storage.example:10809/two%20words%3F",
            "nbds://storage.example:10809/disk?tls-certificates=/etc/pki/libnbd",
            "nbd+unix:///disk?socket=/run/nbd.sock",
            "nbds+unix:///?socket=/run/nbd.sock&tls-certificates=/x&tls-hostname=storage.example",
        ] {
            assert_eq!(NbdUrl::parse(text).unwrap().to_string(), text);
        }
        let url = NbdUrl::parse("nbd://host//odd%2Fname").unwrap();
        assert_eq!(
            (url.export.as_str(), url.place),
            ("/odd/name", NbdPlace::Tcp(HostPort::new("host", 10809).unwrap()))
        );
    }

    #[test]
    fn parameters_may_stand_behind_commas() {
        for (text, same) in [
            ("nbd+unix:///disk,socket=/run/nbd.sock", "nbd+unix:///disk?socket=/run/nbd.sock"),
            (
                "nbds://h:1/disk?tls-hostname=b,tls-certificates=/x",
                "nbds://h:1/disk?tls-certificates=/x&tls-hostname=b",
            ),
            ("nbd://h:1/a,b", "nbd://h:1/a%2Cb"),
            ("nbd://h:1/a,b=c,", "nbd://h:1/a%2Cb%3Dc"),
        ] {
            let url = NbdUrl::parse(text).unwrap();
            assert_eq!(url.to_string(), same);
            assert_eq!(NbdUrl::parse(same).unwrap(), url);
        }
    }

    #[test]
    fn wrong_urls_say_what_is_wrong() {
        for (text, why) in [
            ("nbd:///disk", "host is missing"),
            ("nbd://h:x/disk", "port must be a number"),
            ("nbd+unix:///disk", "socket=PATH is missing"),
            ("nbd+unix://h/disk?socket=/x", "no host"),
            ("nbd://h/disk?socket=/x", "for nbd+unix://"),
            ("nbd://h/disk?colour=red", "unknown parameter colour="),
            ("nbd://h/disk?tls-certificates=/x", "for nbds://"),
            ("nbds://h/disk?tls-psk-file=/x", "pre-shared keys"),
            ("nbds://h/disk?tls-certificates=", "no value"),
            ("nbd+unix:///disk?socket=/x,socket=/y", "given twice"),
            ("nbd://h,i/disk", "a name or an address"),
            ("nbd://h/%4", "two digits"),
            ("nbd://h/%+1", "two digits"),
            ("nbd://h/%00", "zero byte"),
            ("nbd://h/%ff", "not UTF-8"),
            ("ndb://h/disk", "wrong scheme"),
        ] {
            let error = NbdUrl::parse(text).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
            assert_eq!(error.kind(), ErrorKind::Usage);
        }
    }
}
