//! The event log of Windows: writing to it, and registering the name under which a program does.

use crate::limits::EVENT_UNITS_MAX;
use std::io;
use std::ptr::{null, null_mut};
use windows_sys::Win32::Foundation::{ERROR_FILE_NOT_FOUND, ERROR_SUCCESS, HANDLE, WIN32_ERROR};
use windows_sys::Win32::System::EventLog::{
    DeregisterEventSource, EVENTLOG_ERROR_TYPE, EVENTLOG_INFORMATION_TYPE, EVENTLOG_WARNING_TYPE,
    RegisterEventSourceW, ReportEventW,
};
use windows_sys::Win32::System::Registry::{
    HKEY_LOCAL_MACHINE, REG_DWORD, REG_EXPAND_SZ, RegDeleteTreeW, RegSetKeyValueW,
};

/// Place where Windows looks up the sources of the log named Application.
const SOURCES: &str = r"SYSTEM\CurrentControlSet\Services\EventLog\Application";

/// A file of messages of every Windows: those with the numbers 1 to 1000 consist of the text that
/// the program gives, so that the viewer shows it as it is.
const MESSAGES: &str = r"%SystemRoot%\System32\EventCreate.exe";

/// Severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gravity {
    /// Something failed.
    Error,
    /// Something may fail, or needs attention.
    Warning,
    /// All else.
    Information,
}

impl Gravity {
    fn raw(self) -> u16 {
        match self {
            Self::Error => EVENTLOG_ERROR_TYPE,
            Self::Warning => EVENTLOG_WARNING_TYPE,
            Self::Information => EVENTLOG_INFORMATION_TYPE,
        }
    }
}

/// A source of events, open for writing.
#[derive(Debug)]
pub struct EventLog(HANDLE);

// SAFETY: the handle is an RPC context of the event log service, which has no ties to a thread.
unsafe impl Send for EventLog {}
// SAFETY: `ReportEventW` may be called with one handle from several threads at a time; nothing else
// is done with it until it is dropped.
unsafe impl Sync for EventLog {}

impl EventLog {
    /// Opens the log for a source. One that is not registered can write, too; only the viewer then
    /// says that it does not know the messages.
    ///
    /// # Errors
    /// The service of the event log does not answer.
    pub fn open(source: &str) -> io::Result<Self> {
        let source = wide(source);
        // SAFETY: the name ends in NUL and lives until the call returns; no server means this one.
        let handle = unsafe { RegisterEventSourceW(null(), source.as_ptr()) };
        if handle.is_null() { Err(io::Error::last_os_error()) } else { Ok(Self(handle)) }
    }

    /// Writes an event with the number of its message, from 1 to 1000.
    ///
    /// # Errors
    /// The log is full, or its service has gone.
    pub fn write(&self, gravity: Gravity, message: u16, text: &str) -> io::Result<()> {
        let text = event_text(text);
        let texts = [text.as_ptr()];
        // SAFETY: the handle is open while `self` lives. One text is announced and one is given,
        // which ends in NUL and lives until the call returns; there is no user and no further data.
        let written = unsafe {
            let (category, id) = (0, u32::from(message));
            let (user, count, bytes) = (null_mut(), 1, 0);
            let raw = gravity.raw();
            ReportEventW(self.0, raw, category, id, user, count, bytes, texts.as_ptr(), null())
        };
        if written == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and nobody has it any more.
        let _ = unsafe { DeregisterEventSource(self.0) };
    }
}

/// Registers a source, so that the viewer shows its messages. Only administrators may.
///
/// # Errors
/// Those of the registry.
pub fn register(source: &str) -> io::Result<()> {
    let messages: Vec<u8> = wide(MESSAGES).into_iter().flat_map(u16::to_le_bytes).collect();
    let all = EVENTLOG_ERROR_TYPE | EVENTLOG_WARNING_TYPE | EVENTLOG_INFORMATION_TYPE;
    set(source, "EventMessageFile", REG_EXPAND_SZ, &messages)?;
    set(source, "TypesSupported", REG_DWORD, &u32::from(all).to_le_bytes())
}

/// Removes a source that [`register`] made; one that is not there is no error.
///
/// # Errors
/// Those of the registry.
pub fn unregister(source: &str) -> io::Result<()> {
    let key = wide(&key(source));
    // SAFETY: the name of the key ends in NUL and lives until the call returns.
    match unsafe { RegDeleteTreeW(HKEY_LOCAL_MACHINE, key.as_ptr()) } {
        ERROR_FILE_NOT_FOUND => Ok(()),
        code => outcome(code),
    }
}

/// Sets a value of a source, and makes its key if it is not there.
fn set(source: &str, name: &str, kind: u32, value: &[u8]) -> io::Result<()> {
    let (key, name) = (wide(&key(source)), wide(name));
    let length = u32::try_from(value.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: both names end in NUL, the value has as many bytes as it is said to have, and all of
    // them live until the call returns.
    outcome(unsafe {
        let value = value.as_ptr().cast();
        RegSetKeyValueW(HKEY_LOCAL_MACHINE, key.as_ptr(), name.as_ptr(), kind, value, length)
    })
}

fn key(source: &str) -> String {
    format!(r"{SOURCES}\{source}")
}

fn outcome(code: WIN32_ERROR) -> io::Result<()> {
    match code {
        ERROR_SUCCESS => Ok(()),
        code => Err(io::Error::from_raw_os_error(code.cast_signed())),
    }
}

/// A text as Windows takes it. It ends at a NUL, so that there is none within it.
fn wide(text: &str) -> Vec<u16> {
    text.chars()
        .map(|c| if c == '\0' { ' ' } else { c })
        .collect::<String>()
        .encode_utf16()
        .chain([0])
        .collect()
}

/// The text of an event: at most as long as the log takes, and without a `%` before a digit, which
/// the viewer would take for the place of another text.
fn event_text(text: &str) -> Vec<u16> {
    let mut kept = String::with_capacity(text.len());
    let (mut units, mut last) = (0, ' ');
    for c in text.chars() {
        if last == '%' && c.is_ascii_digit() {
            kept.push(' ');
            units += 1;
        }
        units += c.len_utf16();
        if units > EVENT_UNITS_MAX {
            break;
        }
        kept.push(c);
        last = c;
    }
    wide(&kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(text: &str) -> String {
        let wide = event_text(text);
        assert_eq!(wide.last(), Some(&0));
        String::from_utf16(&wide[..wide.len() - 1]).unwrap()
    }

    #[test]
    fn texts_of_events_are_shown_as_they_are() {
        assert_eq!(back("listening on [fe80::1%12]:4420"), "listening on [fe80::1% 12]:4420");
        assert_eq!(back("100% of it"), "100% of it");
        assert_eq!(back("a\0b"), "a b");
        assert_eq!(back(&"😀".repeat(EVENT_UNITS_MAX)).chars().count(), EVENT_UNITS_MAX / 2);
    }

    #[test]
    fn a_source_is_registered_writes_and_goes() {
        let source = format!("weft-test-{}", std::process::id());
        register(&source).unwrap();
        register(&source).unwrap();
        let log = EventLog::open(&source).unwrap();
        for gravity in [Gravity::Error, Gravity::Warning, Gravity::Information] {
            log.write(gravity, 1, "written by a test of weft").unwrap();
        }
        drop(log);
        unregister(&source).unwrap();
        unregister(&source).unwrap();
    }
}
