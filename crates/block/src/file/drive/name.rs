//! Paths of Windows that name a drive, a volume or another device, and no file on one. Opening it
//! could already do harm, so that the name decides.

use uuid::Uuid;

/// Object that a path names. The paths in it are in the form in which they are opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveName {
    /// A file, or nothing that this knows.
    File,
    /// A drive: `\\.\PhysicalDrive1`.
    Drive(String),
    /// A volume: `\\.\E:`, `\\?\Volume{GUID}`.
    Volume(String),
    /// Another device.
    Other,
}

/// Reads a path. A slash is as good as a backslash, but not behind `\\?\`, as in Windows.
pub fn read(path: &str) -> DriveName {
    if is_letter(path) {
        return DriveName::Volume(format!(r"\\.\{path}"));
    }
    if let Some(rest) = path.strip_prefix(r"\\?\") {
        // A file is behind a device: `\\?\E:\disk.img`.
        let is_file = rest.split('\\').skip(1).any(|part| !part.is_empty());
        return if is_file { DriveName::File } else { device(rest) };
    }
    let path = path.replace('/', r"\");
    path.strip_prefix(r"\\.\").map_or(DriveName::File, device)
}

/// A drive letter with a colon.
fn is_letter(text: &str) -> bool {
    matches!(text.as_bytes(), [letter, b':'] if letter.is_ascii_alphabetic())
}

fn device(name: &str) -> DriveName {
    if is_letter(name) {
        return DriveName::Volume(format!(r"\\.\{name}"));
    }
    let drive = behind(name, "PhysicalDrive").and_then(|digits| {
        digits.parse::<u32>().ok().filter(|number| number.to_string() == digits)
    });
    if let Some(number) = drive {
        return DriveName::Drive(format!(r"\\.\PhysicalDrive{number}"));
    }
    let volume = behind(name.strip_suffix('\\').unwrap_or(name), "Volume{")
        .and_then(|rest| rest.strip_suffix('}'))
        .and_then(|guid| Uuid::parse_str(guid).ok());
    volume.map_or(DriveName::Other, |guid| DriveName::Volume(format!(r"\\?\Volume{{{guid}}}")))
}

/// Returns the text behind `start`, whose case does not matter.
fn behind<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(start.len())?;
    head.eq_ignore_ascii_case(start).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_and_volumes_are_told_by_name() {
        let drive =
            |path: &str| assert_eq!(read(path), DriveName::Drive(r"\\.\PhysicalDrive1".into()));
        drive(r"\\.\PhysicalDrive1");
        drive("//./physicaldrive1");
        drive(r"\\?\PhysicalDrive1");
        for path in ["E:", r"\\.\E:", "//./E:", r"\\?\E:"] {
            assert_eq!(read(path), DriveName::Volume(r"\\.\E:".into()), "{path}");
        }
        let guid = "b75e2c83-0000-0000-0000-602f00000000";
        let named = DriveName::Volume(format!(r"\\?\Volume{{{guid}}}"));
        for path in [
            format!(r"\\?\Volume{{{guid}}}\"),
            format!(r"\\?\Volume{{{guid}}}"),
            format!(r"\\.\volume{{{}}}", guid.to_uppercase()),
        ] {
            assert_eq!(read(&path), named, "{path}");
        }
    }

    #[test]
    fn other_devices_and_files_are_none() {
        for path in [
            r"\\.\COM1",
            r"\\.\pipe\weft",
            r"\\.\PhysicalDrive",
            r"\\.\PhysicalDrive1x",
            r"\\.\PhysicalDrive01",
            r"\\.\PhysicalDrive+1",
            r"\\.\E:\disk.img",
            r"\\?\E:\",
            r"\\.\Volume{1}",
            r"\\.\é",
            r"\\.\",
        ] {
            assert_eq!(read(path), DriveName::Other, "{path}");
        }
        for path in [
            r"E:\",
            r"E:\disk.img",
            "E:disk.img",
            r"\\?\E:\disk.img",
            r"\\?\UNC\server\share\disk.img",
            r"\\server\share\disk.img",
            r"\\?\Volume{b75e2c83-0000-0000-0000-602f00000000}\disk.img",
            "disk.img",
            "/dev/sdb",
            "",
        ] {
            assert_eq!(read(path), DriveName::File, "{path}");
        }
    }
}
