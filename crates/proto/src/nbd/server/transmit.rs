//! The sending side of a server: its part of the negotiation, then replies.

use super::NbdEngine;
use super::slot::{RequestSlot, RequestState};
use crate::nbd::Form;
use crate::nbd::code::{ChunkType, CommandCode, ErrorCode};
use crate::nbd::message::{Chunk, Header, put_simple};
use crate::nbd::wire::transmit_bytes;
use crate::stream::{Tag, Transmit};

/// Metadata context identifier of base:allocation.
pub(super) const ALLOCATION_CONTEXT: u32 = 1;

impl NbdEngine {
    #[inline]
    pub(super) fn transmit_all(&mut self, out: &mut Transmit) {
        if !self.said.is_empty() {
            transmit_bytes(&mut self.said, &mut self.said_from, out);
        }
        while !out.is_full() && self.said.is_empty() {
            let Some(tag) = self.ready.pop_front() else { return };
            let Some(slot) = self.slots.at(tag) else { continue };
            let has_data = slot.command == CommandCode::READ && slot.error == ErrorCode::SUCCESS;
            if has_data {
                slot.state = RequestState::Sending;
                put_data(self.form, slot, tag, out);
            } else {
                put_answer(self.form, slot, out);
                self.slots.give_back(tag);
            }
        }
    }
}

/// A read that succeeded.
#[inline]
fn put_data(form: Form, slot: &RequestSlot, tag: Tag, out: &mut Transmit) {
    let length = slot.length as u32;
    let mut header = Header::default();
    if form == Form::Simple {
        put_simple(&mut header, ErrorCode::SUCCESS, slot.cookie);
    } else {
        chunk(form, slot, ChunkType::OFFSET_DATA, length + 8).put(&mut header);
        header.u64(slot.offset);
    }
    out.header(header.as_bytes());
    out.payload(tag, 0, length, false);
    out.release(tag);
}

/// Everything else.
#[inline]
fn put_answer(form: Form, slot: &RequestSlot, out: &mut Transmit) {
    let mut header = Header::default();
    let (error, cookie) = (slot.error, slot.cookie);
    match (form, slot.command) {
        (_, CommandCode::BLOCK_STATUS) if error == ErrorCode::SUCCESS => {
            put_allocated(form, slot, &mut header)
        }
        (Form::Extended, _) if error == ErrorCode::SUCCESS => {
            chunk(form, slot, ChunkType::NONE, 0).put(&mut header)
        }
        (Form::Extended, _) | (Form::Structured, CommandCode::READ | CommandCode::BLOCK_STATUS) => {
            chunk(form, slot, ChunkType::ERROR, 6).put(&mut header);
            header.u32(error.0);
            header.u16(0);
        }
        (Form::Simple | Form::Structured, _) => put_simple(&mut header, error, cookie),
    }
    out.header(header.as_bytes());
}

/// One extent, as long as what was asked about: allocated, its content unknown.
fn put_allocated(form: Form, slot: &RequestSlot, header: &mut Header) {
    if form == Form::Extended {
        chunk(form, slot, ChunkType::BLOCK_STATUS_EXT, 24).put(header);
        header.u32(ALLOCATION_CONTEXT);
        header.u32(1);
        header.u64(slot.length);
        header.u64(0);
    } else {
        chunk(form, slot, ChunkType::BLOCK_STATUS, 12).put(header);
        header.u32(ALLOCATION_CONTEXT);
        header.u32(slot.length as u32);
        header.u32(0);
    }
}

fn chunk(form: Form, slot: &RequestSlot, kind: ChunkType, length: u32) -> Chunk {
    Chunk { form, kind, cookie: slot.cookie, offset: slot.offset, length }
}
