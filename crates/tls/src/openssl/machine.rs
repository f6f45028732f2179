//! One end of one connection during its handshake, without a socket.

use super::context::{CallbackData, Context, Secrets};
use super::keylog::TrafficSecrets;
use super::library::{Library, Unavailable};
use super::types::{
    ERROR_WANT_READ, ERROR_WANT_WRITE, ERROR_ZERO_RETURN, REASON_MASK, Ssl, TLS1_3_VERSION,
};
use super::wire::{Wire, bio};
use crate::schedule::TrafficSecret;
use core::ffi::{CStr, c_int};
use core::ptr::NonNull;
use std::cell::RefCell;
use std::io;
use std::sync::Arc;

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SslFailure {
    /// A client offered identities, the first of them this one, and there is a key for none.
    UnknownIdentity(Vec<u8>),
    /// The handshake is over, but without the key.
    NoPsk,
    /// The other end closed the connection before the handshake was over.
    Closed,
    /// The other end sends too many records without data.
    Flood,
    /// New keys are needed, and the kernel does not change those that it has.
    KernelKeys,
    /// A reason of the library's, by its number and in its words.
    Reason(u32, String),
}

/// One end of one connection.
pub(crate) struct SslMachine {
    library: &'static Library,
    ssl: NonNull<Ssl>,
    /// Of a box; the connection's BIO points to it.
    wire: NonNull<RefCell<Wire>>,
    /// Of a box; the connection's data points to it.
    callback_data: NonNull<CallbackData>,
}

// SAFETY: what the pointers lead to belongs to the machine alone and may be used by any thread,
// though by one at a time: its methods that change something need it exclusively, and it is not
// `Sync`. The context behind the connection is shared, and the library locks it.
unsafe impl Send for SslMachine {}

impl SslMachine {
    pub(crate) fn new(context: &Context) -> Result<Self, Unavailable> {
        let library = context.library;
        // SAFETY: the context is valid. The connection holds a reference to it.
        let ssl = unsafe { (library.SSL_new)(context.raw.as_ptr()) };
        let ssl = NonNull::new(ssl).ok_or(Unavailable::Refused("a connection"))?;
        let callback_data = CallbackData {
            secrets: Arc::clone(&context.secrets),
            chosen: RefCell::default(),
            unknown: RefCell::default(),
            traffic: RefCell::default(),
        };
        let machine = Self {
            library,
            ssl,
            wire: NonNull::from(Box::leak(Box::new(RefCell::new(Wire::new())))),
            callback_data: NonNull::from(Box::leak(Box::new(callback_data))),
        };
        let bio = bio(library, machine.wire.as_ptr())?;
        // SAFETY: the connection is valid and new; it owns the BIO from now on, once although it is
        // given for both directions. What both point to lives until the connection is freed.
        unsafe {
            (library.SSL_set_bio)(ssl.as_ptr(), bio, bio);
            if (library.SSL_set_ex_data)(ssl.as_ptr(), 0, machine.callback_data.as_ptr().cast())
                != 1
            {
                return Err(Unavailable::Refused("data of a connection"));
            }
            match &*context.secrets {
                Secrets::Server(_) => (library.SSL_set_accept_state)(ssl.as_ptr()),
                Secrets::Client(..) => (library.SSL_set_connect_state)(ssl.as_ptr()),
            }
        }
        Ok(machine)
    }

    fn wire(&self) -> &RefCell<Wire> {
        // SAFETY: it lives as long as the machine, and is borrowed by nobody but through shared
        // references like this one.
        unsafe { self.wire.as_ref() }
    }

    fn callback_data(&self) -> &CallbackData {
        // SAFETY: as above.
        unsafe { self.callback_data.as_ref() }
    }

    /// Goes on with the handshake; tells whether it is over.
    pub(crate) fn handshake(&mut self) -> Result<bool, SslFailure> {
        let ssl = self.ssl.as_ptr();
        // SAFETY: the connection is valid; what it calls back for does not touch this borrow of the
        // machine.
        let result = unsafe { (self.library.SSL_do_handshake)(ssl) };
        if result != 1 {
            return if self.wants(result)? { Ok(false) } else { Err(SslFailure::Closed) };
        }
        // SAFETY: the connection is valid.
        let (reused, version) =
            unsafe { ((self.library.SSL_session_reused)(ssl), (self.library.SSL_version)(ssl)) };
        if reused != 1 || version != TLS1_3_VERSION {
            return Err(SslFailure::NoPsk);
        }
        Ok(true)
    }

    /// The identity whose key both ends have proved to know. After the handshake.
    pub(crate) fn identity(&self) -> Vec<u8> {
        match &*self.callback_data().secrets {
            Secrets::Client(identity, _) => identity.clone(),
            Secrets::Server(_) => self
                .callback_data()
                .chosen
                .borrow()
                .as_ref()
                .map(|(identity, _)| identity.clone())
                .unwrap_or_default(),
        }
    }

    /// The secrets of what is sent and of what is received, once. After the handshake.
    pub(crate) fn take_secrets(&mut self) -> Option<(TrafficSecret, TrafficSecret)> {
        let TrafficSecrets { of_client, of_server } = self.callback_data().traffic.take();
        let (client, server) = of_client.zip(of_server)?;
        Some(match &*self.callback_data().secrets {
            Secrets::Client(..) => (client, server),
            Secrets::Server(_) => (server, client),
        })
    }

    /// Has bytes that came put into the room for what is left of one record: during the handshake
    /// nothing behind a record is received.
    pub(crate) fn fill_record(
        &mut self,
        come: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut wire = self.wire().borrow_mut();
        let n = come(wire.room_for_record())?;
        wire.came_of_record(n);
        Ok(n)
    }

    /// Has bytes sent that are to be sent.
    pub(crate) fn drain(
        &mut self,
        send: impl FnOnce(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut wire = self.wire().borrow_mut();
        let n = send(wire.unsent())?;
        wire.went(n);
        Ok(n)
    }

    /// Bytes that are to be sent.
    pub(crate) fn unsent(&self) -> usize {
        self.wire().borrow().unsent().len()
    }

    /// Whether the library wants more bytes to come; `false` at the end of the other direction. The
    /// error is that of a call with this result.
    fn wants(&self, result: c_int) -> Result<bool, SslFailure> {
        // SAFETY: the connection is valid, and the call was the last one of this thread.
        match unsafe { (self.library.SSL_get_error)(self.ssl.as_ptr(), result) } {
            ERROR_WANT_READ | ERROR_WANT_WRITE => Ok(true),
            ERROR_ZERO_RETURN => Ok(false),
            _ => Err(self.reason()),
        }
    }

    /// Why the last call failed: the first entry of the thread's list of errors, which is empty
    /// then.
    #[allow(clippy::useless_conversion, reason = "the size of a long is that of the system")]
    fn reason(&self) -> SslFailure {
        // SAFETY: these functions have no requirements. What the library says is a text that lives
        // for ever.
        let (code, text) = unsafe {
            let code = (self.library.ERR_get_error)();
            let text = (self.library.ERR_reason_error_string)(code);
            let text =
                (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned());
            (self.library.ERR_clear_error)();
            (u64::from(code), text)
        };
        if let Some(identity) = self.callback_data().unknown.take() {
            return SslFailure::UnknownIdentity(identity);
        }
        SslFailure::Reason(
            (code & REASON_MASK) as u32,
            text.unwrap_or_else(|| "the library does not say why it failed".into()),
        )
    }
}

impl Drop for SslMachine {
    fn drop(&mut self) {
        // SAFETY: the connection is freed once, and its BIO with it; what both point to was made by
        // boxes, and is pointed to by nobody else then.
        unsafe {
            (self.library.SSL_free)(self.ssl.as_ptr());
            drop(Box::from_raw(self.wire.as_ptr()));
            drop(Box::from_raw(self.callback_data.as_ptr()));
        }
    }
}
