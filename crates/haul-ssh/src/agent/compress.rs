//! Compression of frames (`-z`), for as long as it helps: it must save more time on the network than it takes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use haul_core::error::Result;

use super::frame::{Frame, HEAD, LONGEST, Output, head};
use super::wire::protocol_error;

/// A flag of a frame's kind: the body is one zstd frame.
pub const COMPRESSED: u8 = 0x80;
/// zstd's level: the fastest of those that have a table for repeats.
const LEVEL: i32 = 1;
const LEAST: usize = 512;
/// Frames that are compressed before it is decided.
const TRIAL: u32 = 16;
/// Frames that are then sent uncompressed, at first and at the most: the content changes.
const REST: u32 = 64;
const REST_MOST: u32 = 1024;

/// An output that compresses while `wanted` is set.
pub struct Compressing {
    to: Box<dyn Output>,
    wanted: Arc<AtomicBool>,
    encoder: Option<zstd::bulk::Compressor<'static>>,
    buffer: Vec<u8>,
    trial: Trial,
}

/// What compression has cost and saved since the last decision.
#[derive(Debug, Default)]
struct Trial {
    frames: u32,
    rest: u32,
    last_rest: u32,
    spent: Duration,
    before: u64,
    after: u64,
    /// Bytes that went out, and how long sending took.
    sent: u64,
    sending: Duration,
}

impl Trial {
    /// Whether to continue: the saved bytes would have taken longer to send than to compress.
    fn helps(&self) -> bool {
        let saved = self.before.saturating_sub(self.after) as f64;
        if saved * 20.0 < self.before as f64 {
            return false;
        }
        let a_byte = self.sending.as_secs_f64() / (self.sent.max(1) as f64);
        saved * a_byte > self.spent.as_secs_f64()
    }

    fn decide(&mut self) {
        if self.frames < TRIAL {
            return;
        }
        let helps = self.helps();
        let last = if helps { 0 } else { (self.last_rest * 2).clamp(REST, REST_MOST) };
        *self = Trial { rest: last, last_rest: last, ..Trial::default() };
    }
}

impl Compressing {
    pub fn new(to: Box<dyn Output>, wanted: Arc<AtomicBool>) -> Compressing {
        Compressing { to, wanted, encoder: None, buffer: Vec::new(), trial: Trial::default() }
    }

    /// The frame's body in fewer bytes; `None` where it does not become shorter.
    fn compress(&mut self, parts: &[&[u8]], length: usize) -> Option<Vec<u8>> {
        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            none => none.insert(zstd::bulk::Compressor::new(LEVEL).ok()?),
        };
        let whole = match parts {
            [one] => *one,
            parts => {
                self.buffer.clear();
                parts.iter().for_each(|part| self.buffer.extend_from_slice(part));
                &self.buffer
            }
        };
        let mut out = Vec::with_capacity(length);
        // What does not fit into its own length does not become shorter.
        encoder.compress_to_buffer(whole, &mut out).ok().filter(|count| *count < length).map(|_| out)
    }
}

impl Output for Compressing {
    fn send(&mut self, head: [u8; HEAD], parts: &[&[u8]]) -> io::Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length < LEAST || !self.wanted.load(Ordering::Relaxed) {
            return self.to.send(head, parts);
        }
        if self.trial.rest > 0 {
            self.trial.rest -= 1;
            return self.to.send(head, parts);
        }
        let began = Instant::now();
        let compressed = self.compress(parts, length);
        self.trial.spent += began.elapsed();
        let began = Instant::now();
        let (sent, count) = match &compressed {
            Some(short) => {
                let mut head = head;
                head[0] |= COMPRESSED;
                (self.to.send(head, &[short]), short.len())
            }
            None => (self.to.send(head, parts), length),
        };
        let trial = &mut self.trial;
        trial.sending += began.elapsed();
        trial.sent += count as u64;
        trial.before += length as u64;
        trial.after += count as u64;
        trial.frames += 1;
        trial.decide();
        sent
    }

    fn is_ready(&self) -> bool {
        self.to.is_ready()
    }
}

/// The frame as it was before compression; its length is bounded, whatever the other end sends.
pub fn open(frame: Frame) -> Result<Frame> {
    if frame.kind & COMPRESSED == 0 {
        return Ok(frame);
    }
    let mut bytes = head(frame.kind & !COMPRESSED, frame.id).to_vec();
    let content = zstd::bulk::decompress(frame.body().0, LONGEST).map_err(|_| protocol_error("a frame that cannot be decompressed"))?;
    bytes.extend_from_slice(&content);
    Frame::new(bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default, Clone)]
    struct Sent(Arc<Mutex<Vec<Vec<u8>>>>, Duration);

    impl Output for Sent {
        fn send(&mut self, head: [u8; HEAD], parts: &[&[u8]]) -> io::Result<()> {
            std::thread::sleep(self.1);
            let mut frame = head.to_vec();
            parts.iter().for_each(|part| frame.extend_from_slice(part));
            self.0.lock().expect("no panic").push(frame);
            Ok(())
        }

        fn is_ready(&self) -> bool {
            true
        }
    }

    fn frames(content: &[u8], count: usize, slow: Duration) -> Vec<Vec<u8>> {
        let sent = Sent(Arc::default(), slow);
        let mut to = Compressing::new(Box::new(sent.clone()), Arc::new(AtomicBool::new(true)));
        for _ in 0..count {
            to.send([30, 0, 0, 0, 7], &[b"ab", content]).expect("nothing fails");
        }
        let frames = sent.0.lock().expect("no panic");
        frames.clone()
    }

    #[test]
    fn what_repeats_is_squeezed_and_comes_back() {
        let content = b"climate ".repeat(4096);
        for frame in frames(&content, 3, Duration::from_millis(2)) {
            assert!(frame.len() < content.len() / 10 && frame[0] == 30 | COMPRESSED);
            let back = open(Frame::new(frame).expect("a frame")).expect("it opens");
            assert_eq!((back.kind, back.id, back.body().0), (30, 7, &[b"ab", &content[..]].concat()[..]));
        }
    }

    #[test]
    fn noise_goes_as_it_is_and_is_tried_again() {
        let mut content = Vec::new();
        for n in 0..1024_u64 {
            let mut hasher = haul_core::hash::Algorithm::Blake3.begin();
            hasher.update(&n.to_le_bytes());
            content.extend_from_slice(&hasher.finish());
        }
        let sent = frames(&content, 40, Duration::ZERO);
        assert!(sent.iter().all(|frame| frame[0] == 30), "noise does not become shorter");
    }

    #[test]
    fn a_bomb_is_refused() {
        let mut encoder = zstd::bulk::Compressor::new(1).expect("an encoder");
        let bomb = encoder.compress(&vec![0; LONGEST + 1]).expect("it compresses");
        let mut frame = vec![30 | COMPRESSED, 0, 0, 0, 1];
        frame.extend_from_slice(&bomb);
        assert!(open(Frame::new(frame).expect("a frame")).is_err());
    }

    #[test]
    fn what_costs_more_than_it_saves_is_given_up_for_a_while() {
        let mut trial = Trial { frames: TRIAL, before: 1 << 20, after: 1 << 19, sent: 1 << 19, ..Trial::default() };
        trial.spent = Duration::from_millis(10);
        trial.sending = Duration::from_millis(1);
        trial.decide();
        assert_eq!((trial.rest, trial.frames), (REST, 0));
        trial = Trial { frames: TRIAL, before: 1 << 20, after: 1 << 19, sent: 1 << 19, spent: Duration::from_millis(1), ..trial };
        trial.sending = Duration::from_millis(10);
        trial.decide();
        assert_eq!(trial.rest, 0);
    }
}
