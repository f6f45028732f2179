//! One operation in the ring. It takes several steps if the system transfers less than requested,
//! cannot zero a range, or does not make a write durable at once.

use super::super::op::{DiskKind, DiskOp};
use super::super::service::OpenFile;
use super::super::short;
use crate::event_loop::Handle;
use crate::limits::DISK_VECTORS;
use crate::segment::Segments;
use crate::zeroes::{ZEROES, ZEROES_BYTES};
use io_uring::{opcode, squeue, types};
use rustix::fs::FallocateFlags;
use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;

/// Bytes of one piece of memory that one call moves at most.
const CALL_BYTES: usize = 1 << 30;

/// Present step of the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    /// The operation itself.
    #[default]
    Main,
    /// Write zeroes, as the range could not be zeroed otherwise.
    WriteZeroes,
    /// Make it durable.
    Sync,
}

/// Reaction to a completion.
pub(super) enum Next {
    /// Another step.
    Again,
    /// The end.
    Done(io::Result<()>),
}

/// An operation, the file it is for, and how far it is.
#[derive(Default)]
pub(super) struct Transfer {
    running: Option<(Rc<OpenFile>, DiskOp)>,
    step: Step,
    done_bytes: u64,
    /// Vectors that the system reads when an entry is submitted; kept for their memory.
    vectors: Vec<libc::iovec>,
}

impl Transfer {
    /// Starts an operation, in the memory of one that ended.
    pub(super) fn begin(mut self, file: &Rc<OpenFile>, op: DiskOp) -> Self {
        self.running = Some((Rc::clone(file), op));
        self.step = Step::Main;
        self.done_bytes = 0;
        self
    }

    /// Ends the operation, and gives back the memory for another.
    pub(super) fn finish(mut self, on: &Handle, result: io::Result<()>) -> Self {
        if let Some((file, op)) = self.running.take() {
            file.complete(on, op, result);
        }
        self
    }

    /// The entry for the step that is due. It points into the transfer, which must not be dropped
    /// before its completion.
    pub(super) fn entry(&mut self) -> squeue::Entry {
        let (file, op) = self.running.as_mut().expect("an entry is asked for after `begin`");
        let fd = types::Fd(file.file().as_raw_fd());
        let at = op.offset + self.done_bytes;
        match (self.step, op.kind) {
            (Step::Sync, _) | (_, DiskKind::Sync) => {
                opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build()
            }
            (Step::WriteZeroes, _) => {
                fill_zeroes(&mut self.vectors, op.len - self.done_bytes);
                opcode::Writev::new(fd, self.vectors.as_ptr(), self.vectors.len() as u32)
                    .offset(at)
                    .build()
            }
            (Step::Main, DiskKind::Read) => {
                fill(&mut self.vectors, &mut op.data, self.done_bytes, true);
                match self.vectors[..] {
                    [one] => opcode::Read::new(fd, one.iov_base.cast(), one.iov_len as u32)
                        .offset(at)
                        .build(),
                    _ => opcode::Readv::new(fd, self.vectors.as_ptr(), self.vectors.len() as u32)
                        .offset(at)
                        .build(),
                }
            }
            (Step::Main, DiskKind::Write { dsync }) => {
                fill(&mut self.vectors, &mut op.data, self.done_bytes, false);
                let flags = if dsync { libc::RWF_DSYNC } else { 0 };
                match self.vectors[..] {
                    [one] => opcode::Write::new(fd, one.iov_base.cast(), one.iov_len as u32)
                        .offset(at)
                        .rw_flags(flags)
                        .build(),
                    _ => {
                        let count = self.vectors.len() as u32;
                        opcode::Writev::new(fd, self.vectors.as_ptr(), count)
                            .offset(at)
                            .rw_flags(flags)
                            .build()
                    }
                }
            }
            (Step::Main, DiskKind::Discard) => fallocate(fd, op, FallocateFlags::PUNCH_HOLE),
            (Step::Main, DiskKind::WriteZeroes { free: true, .. }) => {
                fallocate(fd, op, FallocateFlags::PUNCH_HOLE)
            }
            (Step::Main, DiskKind::WriteZeroes { free: false, .. }) => {
                fallocate(fd, op, FallocateFlags::ZERO_RANGE)
            }
        }
    }

    /// Takes in what the system returned for the last entry.
    pub(super) fn advance(&mut self, result: i32) -> Next {
        let Some((file, op)) = &self.running else { return Next::Done(Ok(())) };
        if result < 0 {
            return self.failed(io::Error::from_raw_os_error(-result));
        }
        if file.is_closed() {
            return Next::Done(Ok(()));
        }
        match (self.step, op.kind) {
            (Step::Main, DiskKind::Read) => {
                let at = op.offset + self.done_bytes;
                let mut bytes = result as u64;
                if self.done_bytes + bytes < op.len {
                    bytes = short::counts(file.file(), at, bytes);
                }
                if bytes == 0 {
                    return Next::Done(Err(io::ErrorKind::UnexpectedEof.into()));
                }
                self.moved(bytes)
            }
            (Step::Main, DiskKind::Write { .. }) | (Step::WriteZeroes, _) if result == 0 => {
                Next::Done(Err(io::ErrorKind::WriteZero.into()))
            }
            (Step::Main, DiskKind::Write { .. }) | (Step::WriteZeroes, _) => {
                self.moved(result as u64)
            }
            (Step::Main, DiskKind::WriteZeroes { .. }) => self.zeroed(),
            (Step::Main, DiskKind::Discard | DiskKind::Sync) | (Step::Sync, _) => {
                Next::Done(Ok(()))
            }
        }
    }

    fn moved(&mut self, bytes: u64) -> Next {
        self.done_bytes += bytes;
        match &self.running {
            Some((_, op)) if self.done_bytes < op.len => Next::Again,
            _ if self.step == Step::WriteZeroes => self.zeroed(),
            _ => Next::Done(Ok(())),
        }
    }

    fn zeroed(&mut self) -> Next {
        let durable = matches!(
            &self.running,
            Some((_, DiskOp { kind: DiskKind::WriteZeroes { dsync: true, .. }, .. }))
        );
        if !durable {
            return Next::Done(Ok(()));
        }
        self.step = Step::Sync;
        Next::Again
    }

    fn failed(&mut self, error: io::Error) -> Next {
        let kind = self.running.as_ref().map(|(_, op)| op.kind);
        match (error.raw_os_error(), self.step, kind) {
            (Some(libc::EINTR | libc::EAGAIN), ..) => Next::Again,
            // The range is sound, so that "invalid" means: not of whole sectors of the disk.
            (
                Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL),
                Step::Main,
                Some(DiskKind::WriteZeroes { .. }),
            ) => {
                self.step = Step::WriteZeroes;
                Next::Again
            }
            _ => Next::Done(Err(error)),
        }
    }
}

fn fallocate(fd: types::Fd, op: &DiskOp, how: FallocateFlags) -> squeue::Entry {
    let mode = (how | FallocateFlags::KEEP_SIZE).bits() as i32;
    opcode::Fallocate::new(fd, op.len).offset(op.offset).mode(mode).build()
}

/// Lists the memory behind the first `skip` bytes, as much as one call takes. With `reads` the
/// system writes to it, which it then may.
fn fill(vectors: &mut Vec<libc::iovec>, data: &mut Segments, mut skip: u64, reads: bool) {
    vectors.clear();
    for segment in data.iter_mut() {
        let skipped = skip.min(segment.len() as u64) as usize;
        skip -= skipped as u64;
        let len = segment.len() - skipped;
        if len > 0 && vectors.len() < DISK_VECTORS {
            // What is only written from may be memory that is only read.
            let start = if reads {
                segment[skipped..].as_mut_ptr()
            } else {
                segment[skipped..].as_ptr().cast_mut()
            };
            vectors.push(libc::iovec { iov_base: start.cast(), iov_len: len.min(CALL_BYTES) });
            if len > CALL_BYTES {
                return;
            }
        }
    }
}

/// Lists zeroes: `len` bytes, or as many as one call takes.
fn fill_zeroes(vectors: &mut Vec<libc::iovec>, mut len: u64) {
    vectors.clear();
    while len > 0 && vectors.len() < DISK_VECTORS {
        let part = len.min(ZEROES_BYTES as u64) as usize;
        // The system only reads from it.
        vectors.push(libc::iovec { iov_base: ZEROES.0.as_ptr().cast_mut().cast(), iov_len: part });
        len -= part as u64;
    }
}
