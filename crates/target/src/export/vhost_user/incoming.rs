//! The received part of a message, which may arrive in pieces.

use std::io;
use weft_io::guest::foreign::Foreign;
use weft_io::guest::messages::MessageSocket;
use weft_proto::limits::{VHOST_USER_DESCRIPTORS_MAX, VHOST_USER_MESSAGE_BYTES_MAX};
use weft_proto::vhost_user::{Header, Request, Violation};

/// See the module.
pub(super) struct Incoming {
    bytes: Vec<u8>,
    have: usize,
    header: Option<Header>,
    files: Vec<Foreign>,
}

/// A whole message.
pub(super) struct Message {
    pub header: Header,
    pub request: Request,
    pub files: Vec<Foreign>,
}

/// Why there is no message.
pub(super) enum Nothing {
    /// It has not all come yet.
    Yet,
    /// There is no room for its descriptors now.
    Later,
    /// The front end has closed the connection.
    More,
    Broken(io::Error),
    Violation(Violation),
}

impl From<Violation> for Nothing {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation)
    }
}

impl Incoming {
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![0; VHOST_USER_MESSAGE_BYTES_MAX],
            have: 0,
            header: None,
            files: Vec::new(),
        }
    }

    /// The next message. Nothing behind it is received.
    pub(super) fn next(&mut self, socket: &MessageSocket) -> Result<Message, Nothing> {
        loop {
            let wanted = Header::BYTES + self.header.map_or(0, |header| header.len);
            if self.have == wanted {
                let Some(header) = self.header.take() else {
                    let mut head = [0; Header::BYTES];
                    head.copy_from_slice(&self.bytes[..Header::BYTES]);
                    self.header = Some(Header::parse(head)?);
                    continue;
                };
                self.have = 0;
                let request = Request::parse(&header, &self.bytes[Header::BYTES..wanted])?;
                let files = core::mem::take(&mut self.files);
                if !request.descriptors().contains(&files.len()) {
                    return Err(Violation::Descriptors(header.code).into());
                }
                return Ok(Message { header, request, files });
            }
            match socket.receive(&mut self.bytes[self.have..wanted], &mut self.files) {
                Ok(0) => return Err(Nothing::More),
                Ok(bytes) => self.have += bytes,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Err(Nothing::Yet),
                Err(e) if e.kind() == io::ErrorKind::ResourceBusy => return Err(Nothing::Later),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Nothing::Broken(e)),
            }
            if self.files.len() > VHOST_USER_DESCRIPTORS_MAX {
                let code = self.header.map_or(0, |header| header.code);
                return Err(Violation::Descriptors(code).into());
            }
        }
    }
}
