//! A pump without sockets: moves bytes between an engine, its memory and the test.

use weft_proto::stream::{HEADER_MAX, Part, Rx, StreamEngine, Tag, Transmit};

/// One end of a connection.
pub struct ConnectionEnd<E> {
    pub engine: E,
    /// Received and not used up.
    held: Vec<u8>,
    moving: Option<(Option<(Tag, u32)>, u32)>,
    /// Memory by tag; a missing one throws bytes away.
    pub memory: Vec<Vec<u8>>,
    /// Memory that is no longer sent from.
    pub released: Vec<Tag>,
    pub closed: bool,
}

/// Decision on further parsing.
#[derive(PartialEq)]
pub enum Go {
    On,
    Pause,
}

impl<E: StreamEngine> ConnectionEnd<E> {
    pub fn new(engine: E) -> Self {
        Self {
            engine,
            held: Vec::new(),
            moving: None,
            memory: Vec::new(),
            released: Vec::new(),
            closed: false,
        }
    }

    /// The memory of a tag, made as long as asked for.
    pub fn provide(&mut self, tag: Tag, data: Vec<u8>) {
        if self.memory.len() <= tag.index() {
            self.memory.resize(tag.index() + 1, Vec::new());
        }
        self.memory[tag.index()] = data;
    }

    /// Takes in bytes; `event` gets each event and may use this end.
    pub fn receive(&mut self, bytes: &[u8], event: &mut dyn FnMut(&mut Self, E::Event) -> Go) {
        self.held.extend_from_slice(bytes);
        loop {
            if self.closed {
                return;
            }
            if let Some((to, left)) = &mut self.moving {
                let now = self.held.len().min(*left as usize);
                let moved: Vec<u8> = self.held.drain(..now).collect();
                *left -= now as u32;
                if let Some((tag, offset)) = to {
                    if let Some(memory) =
                        self.memory.get_mut(tag.index()).filter(|memory| !memory.is_empty())
                    {
                        memory[*offset as usize..*offset as usize + now].copy_from_slice(&moved);
                    }
                    *offset += now as u32;
                }
                if *left > 0 {
                    return;
                }
                self.moving = None;
                if let Some(due) = self.engine.payload_received()
                    && event(self, due) == Go::Pause
                {
                    return;
                }
                continue;
            }
            let shown = self.held.len();
            let (used, next) = self.engine.receive(&self.held);
            self.held.drain(..used);
            match next {
                Rx::More { need } => {
                    assert!(
                        need > shown - used && need <= HEADER_MAX,
                        "{need} of {}",
                        shown - used
                    );
                    return;
                }
                Rx::Payload { tag, offset, len, digest } => {
                    assert!(len > 0 && !digest);
                    self.moving = Some((Some((tag, offset)), len));
                }
                Rx::Discard { len } => {
                    assert!(len > 0);
                    self.moving = Some((None, len));
                }
                Rx::Digest { .. } => panic!("NBD has no digests"),
                Rx::Event(due) => {
                    if event(self, due) == Go::Pause {
                        return;
                    }
                }
                Rx::Closed => self.closed = true,
            }
        }
    }

    /// Returns everything that must be sent.
    pub fn transmit(&mut self) -> Vec<u8> {
        let mut sent = Vec::new();
        while self.engine.wants_transmit() {
            let mut list = Transmit::new(40);
            self.engine.transmit(&mut list);
            assert!(!list.is_empty(), "the engine has something to say and does not say it");
            let mut headers = &list.headers[..];
            for part in &list.parts {
                match *part {
                    Part::Header { len } => {
                        let (now, later) = headers.split_at(len as usize);
                        sent.extend_from_slice(now);
                        headers = later;
                    }
                    Part::Payload { tag, offset, len, digest } => {
                        assert!(!digest);
                        sent.extend_from_slice(
                            &self.memory[tag.index()][offset as usize..(offset + len) as usize],
                        );
                    }
                    Part::Release { tag } => self.released.push(tag),
                }
            }
        }
        sent
    }
}
