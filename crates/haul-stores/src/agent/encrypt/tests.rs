use std::collections::HashSet;

use proptest::prelude::*;

use std::io::{Read, Write};

use super::frames::{Kind, header};
use super::*;

/// The reader that a listening end has: what arrived.
type Stream<'a> = &'a [u8];

fn secret() -> Secret {
    Secret::from_bytes(std::array::from_fn(|i| i as u8))
}

/// Both ends of connection 7: the connecting one and the accepting one.
fn both() -> ((Encryptor, Decryptor), (Encryptor, Decryptor)) {
    let (hello, encryptor, decryptor) = Connector::new(secret()).connect_with(7, std::array::from_fn(|i| 0xa0 + i as u8));
    let (number, remote_encryptor, remote_decryptor) = Acceptor::new(secret()).accept(&hello).expect("made with the same secret");
    assert_eq!(number, 7);
    ((encryptor, decryptor), (remote_encryptor, remote_decryptor))
}

fn frame(encryptor: &mut Encryptor, plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encryptor.encrypt(&mut out, &[plain]).expect("a vector takes it");
    out
}

fn final_frame(encryptor: &mut Encryptor) -> Vec<u8> {
    let mut out = Vec::new();
    encryptor.send(&mut out, Kind::End, 0, &[]).expect("a vector takes it");
    out
}

fn open(decryptor: &mut Decryptor, mut from: Stream) -> Result<Option<Vec<u8>>> {
    let mut buffer = Vec::new();
    let opened = decryptor.decrypt(&mut from, &mut buffer)?.map(|plain| plain.to_vec());
    assert!(from.is_empty(), "a frame is read whole");
    Ok(opened)
}

/// The frame is refused, and so is a good one behind it.
fn refused(decryptor: &mut Decryptor, stream: Stream) {
    let mut buffer = vec![1; 8];
    let error = decryptor.decrypt(&mut { stream }, &mut buffer).expect_err("not encrypted so");
    assert_eq!(error.to_string(), "receive: a frame that the remote end did not encrypt");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(error.remedy(), Remedy::Reconnect);
    assert!(buffer.is_empty(), "nothing is left of it");
    let again = decryptor.decrypt(&mut { stream }, &mut buffer).expect_err("a failure is final");
    assert_eq!(again.to_string(), error.to_string());
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hexadecimal")).collect()
}

/// Appendix A.1 of RFC 5869.
#[test]
fn hkdf_is_that_of_the_rfc() {
    let salt: [u8; 13] = std::array::from_fn(|i| i as u8);
    let prk = Salt::new(HKDF_SHA256, &salt).extract(&[0x0b; 22]);
    let okm: [u8; 42] = expand(&prk, &[&[0xf0, 0xf1, 0xf2, 0xf3, 0xf4], &[0xf5, 0xf6, 0xf7, 0xf8, 0xf9]]);
    let wanted = hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
    assert_eq!(okm.as_slice(), wanted);
}

/// The vectors of docs/data-connections.md, which another implementation computed (Python's hmac, OpenSSL's AES).
#[test]
fn the_scheme_is_as_it_is_written_down() {
    let hello =
        hex("6861756c0064310a00000007a0a1a2a3a4a5a6a7a8a9aaabacadaeaf8294d177d562f98e8eeab2a695aae151158cf5d4889ddde03ab074153a3047ae");
    let (made, mut encryptor, _) = Connector::new(secret()).connect_with(7, std::array::from_fn(|i| 0xa0 + i as u8));
    assert_eq!(made.as_slice(), hello);
    assert_eq!(frame(&mut encryptor, b"first"), hex("00000015034a7ca3437afa9ee659a7a2b0dbb481f5d2e800a1"));
    let second = "0000002dc78f12124a272a8a83d35f95dfa33cea35235908bda67e7c557c05a9cfa105b1db9f6fa0570e7ab2e3d1445edd";
    assert_eq!(frame(&mut encryptor, b"second, longer than one block"), hex(second));
    encryptor.keys.frame = 65_535;
    assert_eq!(frame(&mut encryptor, b"last of a key"), hex("0000001d68628d95f7da22066f784144f04893e42ea4f154792af98cf8ca0d960b"));
    let next = "000000215680e6294dd647e67a66e6955901570ff136f1c405ff9bbb12c91375ff75a7ba42";
    assert_eq!(frame(&mut encryptor, b"first of the next"), hex(next));

    let (_, (mut encryptor, _)) = both();
    assert_eq!(frame(&mut encryptor, b"ready"), hex("000000150abc5d5cb47ebf5c1e65468eafaab382f5727ae2bb"));
    assert_eq!(final_frame(&mut encryptor), hex("0100001059c506f1ca0ce9c323434dc5c6be67fe"));
}

#[test]
fn both_directions_arrive_and_end() {
    let ((mut encryptor, mut decryptor), (mut remote_encryptor, mut remote_decryptor)) = both();
    assert_eq!(open(&mut remote_decryptor, &frame(&mut encryptor, b"there")).unwrap().unwrap(), b"there");
    assert_eq!(open(&mut decryptor, &frame(&mut remote_encryptor, b"and back")).unwrap().unwrap(), b"and back");
    assert_eq!(open(&mut remote_decryptor, &frame(&mut encryptor, b"")).unwrap().unwrap(), b"");
    assert!(open(&mut remote_decryptor, &final_frame(&mut encryptor)).unwrap().is_none());
    assert!(open(&mut remote_decryptor, &[]).unwrap().is_none(), "an end stays one");
    assert_eq!(open(&mut decryptor, &frame(&mut remote_encryptor, b"more")).unwrap().unwrap(), b"more");
}

#[test]
fn a_flipped_bit_anywhere_is_refused() {
    let encrypted = frame(&mut both().0.0, b"what was sent");
    for at in 0..encrypted.len() {
        for bit in 0..8 {
            let mut changed = encrypted.clone();
            changed[at] ^= 1 << bit;
            let mut remote_decryptor = both().1.1;
            let error = remote_decryptor.decrypt(&mut changed.as_slice(), &mut Vec::new()).expect_err("changed");
            // A length that grew waits for bytes that never come.
            let wanted = if (1..HEADER).contains(&at) && changed[at] > encrypted[at] {
                [ErrorKind::Corrupt, ErrorKind::Broken]
            } else {
                [ErrorKind::Corrupt; 2]
            };
            assert!(wanted.contains(&error.kind()), "byte {at}, bit {bit}: {error}");
        }
    }
}

#[test]
fn a_final_frame_is_not_made_of_another() {
    let mut empty = frame(&mut both().0.0, b"");
    empty[0] = Kind::End as u8;
    refused(&mut both().1.1, &empty);
    let mut end = final_frame(&mut both().0.0);
    end[0] = Kind::Data as u8;
    refused(&mut both().1.1, &end);
}

#[test]
fn frames_out_of_their_order_are_refused() {
    let mut encryptor = both().0.0;
    let [first, second] = [b"one", b"two"].map(|plain| frame(&mut encryptor, plain));
    refused(&mut both().1.1, &[second.clone(), first.clone()].concat());
    refused(&mut both().1.1, &second);
    let mut remote_decryptor = both().1.1;
    assert_eq!(open(&mut remote_decryptor, &first).unwrap().unwrap(), b"one");
    refused(&mut remote_decryptor, &[first, second].concat());
}

#[test]
fn a_frame_from_elsewhere_is_refused() {
    let ((mut encryptor, mut decryptor), _) = both();
    let sent = frame(&mut encryptor, b"mine");
    refused(&mut decryptor, &sent);

    let connector = Connector::new(secret());
    let mut acceptor = Acceptor::new(secret());
    let (_, _, mut other_opener) = acceptor.accept(&connector.connect(8).unwrap().0).unwrap();
    refused(&mut other_opener, &sent);
    // The same number, another nonce.
    let (_, _, mut other_opener) = acceptor.accept(&connector.connect(7).unwrap().0).unwrap();
    refused(&mut other_opener, &sent);
}

#[test]
fn a_hello_is_proved_and_taken_once() {
    let reason = |e: Error| (e.kind(), e.reason());
    let (hello, ..) = Connector::new(secret()).connect(3).unwrap();
    let mut acceptor = Acceptor::new(secret());
    for at in 0..HELLO {
        let mut changed = hello;
        changed[at] ^= 1;
        let error = acceptor.accept(&changed).expect_err("changed");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {at}");
    }
    let (strange, ..) = Connector::new(Secret::from_bytes([9; 32])).connect(3).unwrap();
    let stranger = (ErrorKind::Corrupt, "a connection without this session's secret".to_string());
    assert_eq!(reason(acceptor.accept(&strange).unwrap_err()), stranger);

    assert_eq!(acceptor.accept(&hello).expect("no stranger has used the number up").0, 3);
    let repeated = (ErrorKind::Corrupt, "a replayed or expired connection".to_string());
    assert_eq!(reason(acceptor.accept(&hello).unwrap_err()), repeated);
    let (same_number, ..) = Connector::new(secret()).connect(3).unwrap();
    assert_eq!(reason(acceptor.accept(&same_number).unwrap_err()), repeated);

    let mut other = hello;
    other[6] = b'2';
    let version = (ErrorKind::Corrupt, "not a data connection of this version of haul".to_string());
    assert_eq!(reason(acceptor.accept(&other).unwrap_err()), version);
}

#[test]
fn another_secret_opens_nothing() {
    let sent = frame(&mut both().0.0, b"x");
    let other = Connector::new(Secret::from_bytes([9; 32])).connect_with(7, std::array::from_fn(|i| 0xa0 + i as u8)).0;
    let mut remote_decryptor = Acceptor::new(Secret::from_bytes([9; 32])).accept(&other).unwrap().2;
    refused(&mut remote_decryptor, &sent);
}

#[test]
fn a_stream_cut_short_is_no_end() {
    let mut encryptor = both().0.0;
    let stream = [frame(&mut encryptor, b"all"), final_frame(&mut encryptor)].concat();
    for length in 0..stream.len() {
        let mut remote_decryptor = both().1.1;
        let mut from = &stream[..length];
        let mut buffer = Vec::new();
        let error = loop {
            match remote_decryptor.decrypt(&mut from, &mut buffer) {
                Ok(Some(plain)) => assert_eq!(plain, b"all"),
                Ok(None) => panic!("an end after {length} bytes"),
                Err(e) => break e,
            }
        };
        assert_eq!(error.to_string(), "receive: the connection ended too early", "{length} bytes");
        assert_eq!((error.kind(), error.remedy()), (ErrorKind::Broken, Remedy::Reconnect));
    }
}

#[test]
fn a_length_out_of_bounds_is_refused_before_anything_is_allocated() {
    let (least, most) = (TAG, MOST + TAG);
    for (kind, length) in [(0, most + 1), (0, 0xff_ffff), (0, least - 1), (0, 0), (1, least + 1), (1, 0), (2, least), (255, most)] {
        let mut header = header(Kind::Data, length);
        header[0] = kind;
        let mut buffer = Vec::new();
        let error = both().1.1.decrypt(&mut header.as_slice(), &mut buffer).expect_err("out of bounds");
        assert_eq!(error.to_string(), "receive: a frame that the remote end did not encrypt", "{kind} {length}");
        assert_eq!(buffer.capacity(), 0, "{kind} {length}");
    }
}

#[test]
fn the_longest_frame_goes_through_and_one_byte_more_does_not() {
    let ((mut encryptor, _), (_, mut remote_decryptor)) = both();
    let plain = vec![5; MOST + 1];
    let mut out = Vec::new();
    let error = encryptor.encrypt(&mut out, &[&plain]).unwrap_err();
    assert_eq!((error.kind(), out.len()), (ErrorKind::Usage, 0));
    let encrypted = frame(&mut encryptor, &plain[..MOST]);
    assert_eq!(open(&mut remote_decryptor, &encrypted).unwrap().unwrap(), plain[..MOST]);
}

#[test]
fn a_new_key_is_made_where_the_old_one_ends() {
    let ((mut encryptor, _), (_, mut remote_decryptor)) = both();
    (encryptor.keys.each, remote_decryptor.keys.each) = (3, 3);
    let mut seen = HashSet::new();
    for count in 0..20_u8 {
        let encrypted = frame(&mut encryptor, &[count]);
        assert_eq!(open(&mut remote_decryptor, &encrypted).unwrap().unwrap(), [count]);
        assert_eq!(encryptor.keys.generation, u64::from(count) / 3);
        seen.insert(encryptor.keys.iv);
    }
    assert_eq!(seen.len(), 7);

    let ((mut encryptor, _), (_, mut remote_decryptor)) = both();
    (encryptor.keys.frame, remote_decryptor.keys.frame) = (FRAMES_OF_A_KEY - 1, FRAMES_OF_A_KEY - 1);
    for (plain, generation) in [(b"a", 0), (b"b", 1), (b"c", 1)] {
        assert_eq!(open(&mut remote_decryptor, &frame(&mut encryptor, plain)).unwrap().unwrap(), plain);
        assert_eq!((encryptor.keys.generation, remote_decryptor.keys.generation), (generation, generation));
    }
}

/// An end that changes its key elsewhere is not understood.
#[test]
fn generations_have_different_keys() {
    let ((mut encryptor, _), (_, mut remote_decryptor)) = both();
    encryptor.keys.each = 1;
    assert_eq!(open(&mut remote_decryptor, &frame(&mut encryptor, b"a")).unwrap().unwrap(), b"a");
    refused(&mut remote_decryptor, &frame(&mut encryptor, b"b"));
}

/// Takes so many bytes, then fails; counts the calls.
struct Pipe {
    room: usize,
    calls: usize,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.calls += 1;
        if self.room == 0 {
            return Err(io::Error::from_raw_os_error(libc::EPIPE));
        }
        let count = bytes.len().min(self.room);
        self.room -= count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_frame_is_one_write_and_a_failed_one_is_final() {
    let mut encryptor = both().0.0;
    let mut pipe = Pipe { room: 1000, calls: 0 };
    encryptor.encrypt(&mut pipe, &[b"a", &[b'b'; 300], b"", b"c"]).unwrap();
    assert_eq!((pipe.calls, pipe.room), (1, 1000 - HEADER - 302 - TAG));
    pipe.room = 10;
    let error = encryptor.encrypt(&mut pipe, &[b"x"]).unwrap_err();
    assert_eq!((error.kind(), error.remedy()), (ErrorKind::Broken, Remedy::Reconnect));
    pipe.room = 1000;
    assert_eq!(encryptor.encrypt(&mut pipe, &[b"x"]).unwrap_err().to_string(), error.to_string());
    assert_eq!(pipe.room, 1000);
}

/// A socket whose read time limit passed.
struct Silent;

impl Read for Silent {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(libc::EAGAIN))
    }
}

#[test]
fn silence_is_a_timeout() {
    let error = both().0.1.decrypt(&mut Silent, &mut Vec::new()).unwrap_err();
    assert_eq!((error.kind(), error.remedy()), (ErrorKind::TimedOut, Remedy::Reconnect));
}

#[test]
fn nothing_secret_is_printed() {
    let secret = Secret::random().unwrap();
    assert_ne!(secret.as_bytes(), Secret::random().unwrap().as_bytes());
    assert_eq!(format!("{secret:?}"), "Secret(..)");
    let ((encryptor, decryptor), _) = both();
    let shown = format!("{encryptor:?} {decryptor:?}");
    let iv = format!("{:?}", encryptor.keys.iv);
    assert!(shown.contains("Keys { frame: 0, .. }") && !shown.contains(iv.trim_matches(['[', ']'])), "{shown}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_encrypted_can_be_decrypted(frames in prop::collection::vec(prop::collection::vec(0_usize..5000, 0..5), 0..12), each in 1_u64..5) {
        let ((mut encryptor, _), (_, mut remote_decryptor)) = both();
        (encryptor.keys.each, remote_decryptor.keys.each) = (each, each);
        let mut stream = Vec::new();
        let mut sent = Vec::new();
        for (number, lengths) in frames.iter().enumerate() {
            let parts: Vec<Vec<u8>> = lengths.iter().map(|&n| (0..n).map(|i| (i * 7 + number) as u8).collect()).collect();
            let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            encryptor.encrypt(&mut stream, &slices).unwrap();
            sent.push(parts.concat());
        }
        stream.extend_from_slice(&final_frame(&mut encryptor));
        stream.extend_from_slice(b"behind");
        let mut from = stream.as_slice();
        let mut buffer = Vec::new();
        for wanted in &sent {
            let opened = remote_decryptor.decrypt(&mut from, &mut buffer).unwrap().expect("not the end yet");
            prop_assert_eq!(&*opened, wanted.as_slice());
        }
        prop_assert!(remote_decryptor.decrypt(&mut from, &mut buffer).unwrap().is_none());
        prop_assert_eq!(from, b"behind");
    }

    #[test]
    fn a_number_is_taken_once(steps in prop::collection::vec((0_u64..3000, any::<bool>()), 1..400), start in 0_u32..u32::MAX) {
        let mut numbers = Numbers::default();
        let mut taken = HashSet::new();
        let mut newest = 0;
        for (step, forward) in steps {
            let at = u64::from(start).max(newest);
            let number = if forward { (at + step % 40).min(u64::from(u32::MAX)) } else { at.saturating_sub(step) } as u32;
            let known = u64::from(number) + WINDOW > newest;
            prop_assert_eq!(numbers.take(number), known && taken.insert(number), "{}", number);
            newest = newest.max(u64::from(number));
        }
    }
}

#[test]
fn a_jump_of_more_than_the_window_forgets_nothing_that_matters() {
    let mut numbers = Numbers::default();
    assert!(numbers.take(0) && numbers.take(1023) && numbers.take(1) && !numbers.take(0));
    assert!(numbers.take(5000));
    assert!(!numbers.take(1) && !numbers.take(2) && !numbers.take(5000 - 1024));
    assert!(numbers.take(5000 - 1023) && !numbers.take(5000 - 1023));
    assert!(numbers.take(u32::MAX) && !numbers.take(u32::MAX) && numbers.take(u32::MAX - 1) && !numbers.take(5001));
}
