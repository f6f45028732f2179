//! Permissions of an agent: the address at which it listens, the key, and the devices that it uses.

use crate::limits::AGENT_FILE_BYTES_MAX;
use crate::process::exit::Failure;
use serde::Deserialize;
use std::io::Read;
use std::path::{Path, PathBuf};
use weft_block::{Error, ErrorKind};
use weft_endpoint::url::without_secret;

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// Address and port.
    pub listen: String,
    /// File with the key; a relative path begins at the directory of the configuration.
    pub key_file: Option<PathBuf>,
    /// The devices.
    #[serde(default, rename = "device")]
    pub devices: Vec<AgentDevice>,
}

/// A device that the agent touches.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentDevice {
    /// The URL that it opens.
    pub url: String,
    /// A short name, by which a study may ask for it as well.
    pub name: Option<String>,
    /// Studies may write to it.
    #[serde(default)]
    pub write: bool,
}

impl AgentConfig {
    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let place = path.display();
        let cannot = |e| Error::io(format!("cannot read {place}: {e}"), e);
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(cannot)?;
        file.take(AGENT_FILE_BYTES_MAX).read_to_string(&mut text).map_err(cannot)?;
        let wrong = |problem: String| Failure::of(ErrorKind::Usage, format!("{place}: {problem}"));
        let mut config: Self = toml::from_str(&text).map_err(|e| {
            // The message without the lines of the file around it: they may hold a password.
            let line = e.span().map_or(1, |span| {
                text.get(..span.start).unwrap_or_default().matches('\n').count() + 1
            });
            wrong(format!("line {line}: {}", e.message()))
        })?;
        config.check().map_err(wrong)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        config.key_file = config.key_file.map(|file| directory.join(file));
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        if self.devices.is_empty() {
            return Err("there is no [[device]]: an agent touches only what is listed".into());
        }
        for (at, device) in self.devices.iter().enumerate() {
            weft_endpoint::check(&device.url).map_err(|e| e.to_string())?;
            let same = |other: &AgentDevice| {
                other.url == device.url || other.name.is_some() && other.name == device.name
            };
            if self.devices[..at].iter().any(same) {
                return Err(format!(
                    "{} is listed twice, or its name is",
                    without_secret(&device.url)
                ));
            }
            if device
                .name
                .as_ref()
                .is_some_and(|name| name.is_empty() || name.contains([':', '/', ' ', ',']))
            {
                return Err("a name of a device has no colon, slash, space or comma".into());
            }
        }
        Ok(())
    }

    /// The device that a study asks for: exactly the URL of one, or its name. A part of a URL, or
    /// another way to write the same, does not match.
    pub fn device(&self, asked: &str) -> Option<&AgentDevice> {
        self.devices
            .iter()
            .find(|device| device.url == asked || device.name.as_deref() == Some(asked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<AgentConfig, String> {
        let config: AgentConfig = toml::from_str(text).map_err(|e| e.message().to_owned())?;
        config.check().map(|()| config)
    }

    #[test]
    fn only_what_is_listed_is_found() {
        let text = "listen = \"127.0.0.1:0\"\n[[device]]\nurl = \"nvme+tcp://h:4420/nqn.2014-08.org.example:a\"\nname = \"a\"\n\
                    [[device]]\nurl = \"ram:1GiB\"\nwrite = true\n";
        let config = config(text).unwrap();
        assert!(!config.device("a").unwrap().write && config.device("ram:1GiB").unwrap().write);
        assert!(!config.device("nvme+tcp://h:4420/nqn.2014-08.org.example:a").unwrap().write);
        for other in [
            "",
            "ram:",
            "ram:1GiB ",
            "ram:1024MiB",
            "nvme+tcp://h/nqn.2014-08.org.example:a",
            "A",
            "/dev/sda",
        ] {
            assert!(config.device(other).is_none(), "{other}");
        }
    }

    #[test]
    fn mistakes_are_refused() {
        let head = "listen = \"127.0.0.1:0\"\n";
        let twice = "[[device]]\nurl = \"ram:1GiB\"\n".repeat(2);
        for wrong in [
            "",
            "[[device]]\n",
            "[[device]]\nurl = \"ram:1GiB\"\nwritable = true\n",
            &twice,
            "[[device]]\nurl = \"\"\n",
        ] {
            assert!(config(&format!("{head}{wrong}")).is_err(), "{wrong}");
        }
    }
}
