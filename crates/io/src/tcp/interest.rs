//! The readiness for which a socket is registered.
//!
//! On all systems except Windows: both directions, once, because the poller reports only changes.
//! On Windows the poller re-arms a socket for everything it is registered for whenever a call finds
//! nothing. An idle socket can always send, so it would wake its driver endlessly. There a socket
//! is registered for sending only while it connects and while a send waits for room.

#[cfg(not(windows))]
pub(super) use everywhere::Interest;
#[cfg(windows)]
pub(super) use windows::Interest;

#[cfg(not(windows))]
mod everywhere {
    use crate::event_loop::Registrar;
    use mio::net::TcpStream;
    use std::io;

    /// Nothing to remember.
    #[derive(Default)]
    pub(crate) struct Interest(());

    impl Interest {
        pub(crate) fn registered(&mut self, _: &Registrar<'_>) -> io::Result<()> {
            Ok(())
        }

        #[inline]
        pub(crate) fn after_recv<T>(
            &mut self,
            _: &mut TcpStream,
            result: io::Result<T>,
        ) -> io::Result<T> {
            result
        }

        #[inline]
        pub(crate) fn after_send<T>(
            &mut self,
            _: &mut TcpStream,
            result: io::Result<T>,
        ) -> io::Result<T> {
            result
        }
    }
}

#[cfg(windows)]
mod windows {
    use crate::event_loop::Registrar;
    use mio::event::Source;
    use mio::net::TcpStream;
    use mio::{Interest as Mio, Registry, Token};
    use std::io;

    /// Place and purpose of the socket's registration.
    #[derive(Default)]
    pub(crate) struct Interest {
        with: Option<(Registry, Token)>,
        for_sending: bool,
        send_waits: bool,
    }

    fn found_nothing<T>(result: &io::Result<T>) -> bool {
        result.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
    }

    impl Interest {
        /// The socket was registered for both directions.
        pub(crate) fn registered(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
            let (registry, token) = registrar.mio().ok_or(io::ErrorKind::Unsupported)?;
            *self = Self {
                with: Some((registry.try_clone()?, token)),
                for_sending: true,
                send_waits: false,
            };
            Ok(())
        }

        pub(crate) fn after_recv<T>(
            &mut self,
            socket: &mut TcpStream,
            result: io::Result<T>,
        ) -> io::Result<T> {
            if found_nothing(&result) && self.for_sending && !self.send_waits {
                self.change(socket, false)?;
            }
            result
        }

        pub(crate) fn after_send<T>(
            &mut self,
            socket: &mut TcpStream,
            result: io::Result<T>,
        ) -> io::Result<T> {
            self.send_waits = found_nothing(&result);
            if self.send_waits && !self.for_sending {
                self.change(socket, true)?;
            }
            result
        }

        fn change(&mut self, socket: &mut TcpStream, for_sending: bool) -> io::Result<()> {
            let Some((registry, token)) = &self.with else { return Ok(()) };
            let interest = if for_sending { Mio::READABLE | Mio::WRITABLE } else { Mio::READABLE };
            socket.reregister(registry, *token, interest)?;
            self.for_sending = for_sending;
            Ok(())
        }
    }
}
