//! The codecs of both protocols, each with a limit on what comes out.
//!
//! Promises: never gives out more than the limit, never allocates what a length field claims before
//! it is checked against the limit and against what the input can hold; never panics. Working memory
//! besides the output is at most 12.1 MiB (LZ4 with 4 MiB linked blocks) or the Zstandard window,
//! which may be no larger than the limit, but always at least 8 MiB and at most 128 MiB.
//! Leaves out: dictionaries, LZ4's legacy frame, concatenated LZ4 frames (Kafka's Java client reads
//! the first one only, librdkafka refuses them).

use flate2::{Decompress, FlushDecompress, Status};
use std::io::{Read, Write};
use thiserror::Error;

/// Why something could not be decompressed or compressed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CompressionError {
    /// Not what the codec writes.
    #[error("{0}")]
    Corrupt(String),
    /// More than allowed comes out.
    #[error("decompresses to more than {0} bytes")]
    TooBig(u64),
}

fn corrupt(what: impl ToString) -> CompressionError {
    CompressionError::Corrupt(what.to_string())
}

/// Kafka's codecs, as numbered in a batch's attributes (bits 0 to 2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Codec {
    /// Not compressed.
    None = 0,
    /// RFC 1952, one or more members.
    Gzip = 1,
    /// xerial framing or one raw block.
    Snappy = 2,
    /// LZ4 frame.
    Lz4 = 3,
    /// Zstandard frames.
    Zstd = 4,
}

impl Codec {
    /// From a batch's attributes; `Err` holds the unknown number.
    ///
    /// # Errors
    /// Codecs 5 to 7 do not exist.
    pub fn from_attributes(attributes: i16) -> Result<Self, u8> {
        match attributes & 7 {
            0 => Ok(Self::None),
            1 => Ok(Self::Gzip),
            2 => Ok(Self::Snappy),
            3 => Ok(Self::Lz4),
            4 => Ok(Self::Zstd),
            n => Err(n.to_be_bytes()[1]),
        }
    }

    /// Kafka's name of it (`compression.type`).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// Decompresses piece by piece.
#[derive(Debug)]
pub struct Unpacker<'a> {
    kind: Kind<'a>,
    left: u64,
    max: u64,
}

enum Kind<'a> {
    Plain(&'a [u8]),
    Gzip(Box<flate2::bufread::MultiGzDecoder<&'a [u8]>>),
    Snappy(Snappy<'a>),
    Lz4(Box<lz4_flex::frame::FrameDecoder<&'a [u8]>>),
    Zstd(zstd::stream::read::Decoder<'static, &'a [u8]>),
}

impl std::fmt::Debug for Kind<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Gzip(_) => "Gzip",
            Self::Snappy(_) => "Snappy",
            Self::Lz4(_) => "Lz4",
            Self::Zstd(_) => "Zstd",
        })
    }
}

impl<'a> Unpacker<'a> {
    /// Starts on `input`; at most `max` bytes will come out.
    ///
    /// # Errors
    /// `Corrupt` when the framing is broken.
    pub fn new(codec: Codec, input: &'a [u8], max: u64) -> Result<Self, CompressionError> {
        let kind = match codec {
            Codec::None => Kind::Plain(input),
            Codec::Gzip => Kind::Gzip(Box::new(flate2::bufread::MultiGzDecoder::new(input))),
            Codec::Snappy => Kind::Snappy(Snappy::new(input)),
            Codec::Lz4 => {
                check_lz4_frame(input).ok_or_else(|| corrupt("lz4: broken frame"))?;
                Kind::Lz4(Box::new(lz4_flex::frame::FrameDecoder::new(input)))
            }
            Codec::Zstd => Kind::Zstd(zstd_decoder(input, max).map_err(corrupt)?),
        };
        Ok(Self {
            kind,
            left: max,
            max,
        })
    }

    /// Fills the front of `out`; 0 at the end.
    ///
    /// # Errors
    /// `Corrupt`; `TooBig` once more than the limit has come out.
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize, CompressionError> {
        let n = match &mut self.kind {
            Kind::Plain(input) => input.read(out).map_err(corrupt)?,
            Kind::Gzip(reader) => reader.read(out).map_err(corrupt)?,
            Kind::Snappy(reader) => reader.read(out, self.left, self.max)?,
            Kind::Lz4(reader) => reader.read(out).map_err(corrupt)?,
            Kind::Zstd(reader) => reader.read(out).map_err(corrupt)?,
        };
        self.left = self
            .left
            .checked_sub(n as u64)
            .ok_or(CompressionError::TooBig(self.max))?;
        Ok(n)
    }

    fn read_all(&mut self, hint: usize) -> Result<Vec<u8>, CompressionError> {
        const PIECE: usize = 32 * 1024;
        let mut out = Vec::with_capacity(hint);
        let mut end = 0;
        loop {
            if out.len() < end + PIECE {
                out.resize(end + PIECE, 0);
            }
            match self.read(&mut out[end..])? {
                0 => break,
                n => end += n,
            }
        }
        out.truncate(end);
        Ok(out)
    }
}

/// Decompresses as a whole; at most `max` bytes come out.
///
/// # Errors
/// See [`CompressionError`].
pub fn decompress(codec: Codec, input: &[u8], max: u64) -> Result<Vec<u8>, CompressionError> {
    let most = usize::try_from(max).unwrap_or(usize::MAX);
    let hint = input.len().saturating_mul(2).min(most);
    Unpacker::new(codec, input, max)?.read_all(hint)
}

/// Compresses as Kafka clients do. Snappy is written in xerial framing, LZ4 in independent 64 KiB
/// blocks.
///
/// # Errors
/// `Corrupt` when the codec's library fails, which is not expected.
pub fn compress(codec: Codec, input: &[u8]) -> Result<Vec<u8>, CompressionError> {
    match codec {
        Codec::None => Ok(input.to_vec()),
        Codec::Gzip => {
            let mut writer =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            writer.write_all(input).map_err(corrupt)?;
            writer.finish().map_err(corrupt)
        }
        Codec::Snappy => snappy_xerial(input),
        Codec::Lz4 => lz4_frame(input),
        Codec::Zstd => zstd::encode_all(input, 3).map_err(corrupt),
    }
}

fn lz4_frame(input: &[u8]) -> Result<Vec<u8>, CompressionError> {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    let info = FrameInfo::new()
        .block_size(BlockSize::Max64KB)
        .block_mode(BlockMode::Independent);
    let mut writer = FrameEncoder::with_frame_info(info, Vec::new());
    writer.write_all(input).map_err(corrupt)?;
    writer.finish().map_err(corrupt)
}

fn zstd_decoder(
    input: &[u8],
    max: u64,
) -> std::io::Result<zstd::stream::read::Decoder<'static, &[u8]>> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
    let bits = u64::BITS - max.saturating_sub(1).leading_zeros();
    decoder.window_log_max(bits.clamp(23, 27))?;
    Ok(decoder)
}

/// Follows an LZ4 frame block by block: one frame, complete, with nothing behind it. The library's
/// reader takes a frame that is cut between two blocks for a whole one.
fn check_lz4_frame(input: &[u8]) -> Option<()> {
    const MAGIC: [u8; 4] = [0x04, 0x22, 0x4D, 0x18];
    let mut rest = input.strip_prefix(&MAGIC)?;
    let (&[flags, _], after) = rest.split_first_chunk::<2>()?;
    let header = 1 + if flags & 0x08 != 0 { 8 } else { 0 } + if flags & 1 != 0 { 4 } else { 0 };
    rest = after.get(header..)?;
    loop {
        let (word, after) = rest.split_first_chunk::<4>()?;
        let word = u32::from_le_bytes(*word);
        if word == 0 {
            let checksum = if flags & 0x04 != 0 { 4 } else { 0 };
            return (after.len() == checksum).then_some(());
        }
        let checksum = if flags & 0x10 != 0 { 4 } else { 0 };
        rest = after.get((word & 0x7FFF_FFFF) as usize + checksum..)?;
    }
}

const XERIAL_MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const XERIAL_HEADER: usize = 16;
/// Input bytes per block, as snappy-java has it.
const XERIAL_BLOCK: usize = 32 * 1024;
/// A Snappy element of three bytes gives at most 64.
const SNAPPY_RATIO_MAX: usize = 22;

/// Blocks of raw Snappy, one at a time.
struct Snappy<'a> {
    rest: &'a [u8],
    xerial: bool,
    block: Vec<u8>,
    at: usize,
}

impl<'a> Snappy<'a> {
    fn new(input: &'a [u8]) -> Self {
        let xerial = input.len() >= XERIAL_HEADER && input.starts_with(&XERIAL_MAGIC);
        Self {
            rest: if xerial {
                &input[XERIAL_HEADER..]
            } else {
                input
            },
            xerial,
            block: Vec::new(),
            at: 0,
        }
    }

    fn read(&mut self, out: &mut [u8], left: u64, max: u64) -> Result<usize, CompressionError> {
        while self.at == self.block.len() {
            if self.rest.is_empty() {
                return Ok(0);
            }
            self.next_block(left, max)?;
        }
        let n = out.len().min(self.block.len() - self.at);
        out[..n].copy_from_slice(&self.block[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }

    fn next_block(&mut self, left: u64, max: u64) -> Result<(), CompressionError> {
        let mut block = self.rest;
        self.rest = if self.xerial {
            let (length, after) = self
                .rest
                .split_first_chunk::<4>()
                .ok_or_else(|| corrupt("snappy: cut block length"))?;
            let (head, tail) = after
                .split_at_checked(u32::from_be_bytes(*length) as usize)
                .ok_or_else(|| corrupt("snappy: block length past the end"))?;
            block = head;
            tail
        } else {
            &[]
        };
        let claimed = snap::raw::decompress_len(block).map_err(corrupt)?;
        if claimed as u64 > left {
            return Err(CompressionError::TooBig(max));
        }
        if claimed > block.len().saturating_mul(SNAPPY_RATIO_MAX) {
            return Err(corrupt("snappy: block claims more than it can hold"));
        }
        self.at = 0;
        self.block.resize(claimed, 0);
        if claimed > 0 {
            snap::raw::Decoder::new()
                .decompress(block, &mut self.block)
                .map_err(corrupt)?;
        }
        Ok(())
    }
}

fn snappy_xerial(input: &[u8]) -> Result<Vec<u8>, CompressionError> {
    let mut out = Vec::with_capacity(XERIAL_HEADER + input.len() / 2);
    out.extend_from_slice(&XERIAL_MAGIC);
    out.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1]);
    let mut encoder = snap::raw::Encoder::new();
    for block in input.chunks(XERIAL_BLOCK) {
        let packed = encoder.compress_vec(block).map_err(corrupt)?;
        let length = u32::try_from(packed.len()).map_err(corrupt)?;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&packed);
    }
    Ok(out)
}

/// RocketMQ's codecs of message bodies (`CompressionType`, `MessageSysFlag`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BodyCodec {
    /// RFC 1950. What clients before 5.0 always mean.
    Zlib,
    /// LZ4 frame.
    Lz4,
    /// Zstandard frame.
    Zstd,
}

impl BodyCodec {
    /// The codec of a message's body: `Ok(None)` when it is not compressed, `Err` with bits 8 to 10
    /// when they name no known codec.
    ///
    /// # Errors
    /// Bits 8 to 10 above 3.
    pub fn from_sys_flag(sys_flag: i32) -> Result<Option<Self>, i32> {
        if sys_flag & crate::message::SYS_COMPRESSED == 0 {
            return Ok(None);
        }
        match (sys_flag & crate::message::SYS_CODEC) >> 8 {
            0 | 3 => Ok(Some(Self::Zlib)),
            1 => Ok(Some(Self::Lz4)),
            2 => Ok(Some(Self::Zstd)),
            n => Err(n),
        }
    }

    /// The sysFlag bits of a body compressed with it, as clients since 5.0 set them.
    #[must_use]
    pub fn sys_flag(self) -> i32 {
        crate::message::SYS_COMPRESSED
            | match self {
                Self::Zlib => 0x300,
                Self::Lz4 => 0x100,
                Self::Zstd => 0x200,
            }
    }
}

/// Decompresses a message body; at most `max` bytes come out.
///
/// # Errors
/// See [`CompressionError`].
pub fn decompress_body(
    codec: BodyCodec,
    input: &[u8],
    max: u64,
) -> Result<Vec<u8>, CompressionError> {
    match codec {
        BodyCodec::Zlib => zlib(input, max),
        BodyCodec::Lz4 => decompress(Codec::Lz4, input, max),
        BodyCodec::Zstd => decompress(Codec::Zstd, input, max),
    }
}

/// Compresses a message body.
///
/// # Errors
/// `Corrupt` when the codec's library fails, which is not expected.
pub fn compress_body(codec: BodyCodec, input: &[u8]) -> Result<Vec<u8>, CompressionError> {
    match codec {
        BodyCodec::Zlib => {
            let mut writer =
                flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(5));
            writer.write_all(input).map_err(corrupt)?;
            writer.finish().map_err(corrupt)
        }
        BodyCodec::Lz4 => lz4_frame(input),
        BodyCodec::Zstd => zstd::encode_all(input, 3).map_err(corrupt),
    }
}

/// One complete zlib stream. (The library's reader takes a cut stream for a whole one.)
fn zlib(input: &[u8], max: u64) -> Result<Vec<u8>, CompressionError> {
    const PIECE: usize = 16 * 1024;
    let mut inflate = Decompress::new(true);
    let mut out = Vec::with_capacity(input.len().saturating_mul(2).clamp(PIECE, 16 * PIECE));
    loop {
        if out.len() == out.capacity() {
            out.reserve(PIECE);
        }
        let at = usize::try_from(inflate.total_in()).map_err(corrupt)?;
        let before = (inflate.total_in(), inflate.total_out());
        let rest = input.get(at..).unwrap_or_default();
        let status = inflate
            .decompress_vec(rest, &mut out, FlushDecompress::None)
            .map_err(corrupt)?;
        if out.len() as u64 > max {
            return Err(CompressionError::TooBig(max));
        }
        if status == Status::StreamEnd {
            return Ok(out);
        }
        if before == (inflate.total_in(), inflate.total_out()) && out.len() < out.capacity() {
            return Err(corrupt("zlib: cut stream"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CODECS: [Codec; 5] = [
        Codec::None,
        Codec::Gzip,
        Codec::Snappy,
        Codec::Lz4,
        Codec::Zstd,
    ];
    const BODY_CODECS: [BodyCodec; 3] = [BodyCodec::Zlib, BodyCodec::Lz4, BodyCodec::Zstd];

    fn text(n: usize) -> Vec<u8> {
        (0..n).map(|i| (i * i % 251).to_le_bytes()[0]).collect()
    }

    #[test]
    fn round_trips_and_limits() {
        for size in [0, 1, 1000, 200_000] {
            let plain = text(size);
            let size = size as u64;
            for codec in CODECS {
                let packed = compress(codec, &plain).unwrap();
                assert_eq!(
                    decompress(codec, &packed, size).unwrap(),
                    plain,
                    "{codec:?}"
                );
                if size > 0 {
                    assert_eq!(
                        decompress(codec, &packed, size - 1),
                        Err(CompressionError::TooBig(size - 1)),
                        "{codec:?}"
                    );
                    let cut = &packed[..packed.len() - 1];
                    if codec != Codec::None {
                        assert!(decompress(codec, cut, size).is_err(), "{codec:?} {size}");
                    }
                }
            }
            for codec in BODY_CODECS {
                let packed = compress_body(codec, &plain).unwrap();
                assert_eq!(decompress_body(codec, &packed, size).unwrap(), plain);
                if size > 0 {
                    assert!(decompress_body(codec, &packed, size - 1).is_err());
                    assert!(decompress_body(codec, &packed[..packed.len() - 1], size).is_err());
                }
            }
        }
    }

    #[test]
    fn gzip_members_and_raw_snappy() {
        let two = [
            compress(Codec::Gzip, b"one ").unwrap(),
            compress(Codec::Gzip, b"two").unwrap(),
        ]
        .concat();
        assert_eq!(decompress(Codec::Gzip, &two, 7).unwrap(), b"one two");
        let raw = snap::raw::Encoder::new()
            .compress_vec(b"raw raw raw raw")
            .unwrap();
        assert_eq!(
            decompress(Codec::Snappy, &raw, 15).unwrap(),
            b"raw raw raw raw"
        );
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let zeros = vec![0; 64 << 20];
        for codec in CODECS {
            let packed = compress(codec, &zeros).unwrap();
            assert_eq!(
                decompress(codec, &packed, 1 << 16),
                Err(CompressionError::TooBig(1 << 16))
            );
        }
        let packed = compress_body(BodyCodec::Zlib, &zeros).unwrap();
        assert!(decompress_body(BodyCodec::Zlib, &packed, 1 << 16).is_err());
    }

    #[test]
    fn a_snappy_block_cannot_claim_what_it_does_not_hold() {
        let mut claim = XERIAL_MAGIC.to_vec();
        claim.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 6]);
        claim.extend_from_slice(&[0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0]);
        let error = decompress(Codec::Snappy, &claim, u64::MAX).unwrap_err();
        assert!(matches!(error, CompressionError::Corrupt(_)), "{error}");
    }

    #[test]
    fn lz4_cut_between_blocks_is_refused() {
        let packed = compress(Codec::Lz4, &text(200_000)).unwrap();
        let first = u32::from_le_bytes(packed[7..11].try_into().unwrap()) & 0x7FFF_FFFF;
        let cut = &packed[..11 + first as usize];
        assert!(decompress(Codec::Lz4, cut, 1 << 20).is_err());
        let linked = lz4_flex::frame::FrameInfo::new()
            .block_mode(lz4_flex::frame::BlockMode::Linked)
            .content_checksum(true)
            .block_checksums(true)
            .content_size(Some(200_000));
        let mut writer = lz4_flex::frame::FrameEncoder::with_frame_info(linked, Vec::new());
        writer.write_all(&text(200_000)).unwrap();
        let packed = writer.finish().unwrap();
        assert_eq!(
            decompress(Codec::Lz4, &packed, 1 << 20).unwrap(),
            text(200_000)
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(input: Vec<u8>) {
            for codec in CODECS {
                let _ = decompress(codec, &input, 1 << 16);
            }
            for codec in BODY_CODECS {
                let _ = decompress_body(codec, &input, 1 << 16);
            }
        }

        #[test]
        fn mutated_streams_are_survived(at: prop::sample::Index, byte: u8, size in 1usize..5000) {
            for codec in CODECS {
                let mut packed = compress(codec, &text(size)).unwrap();
                let at = at.index(packed.len());
                packed[at] = byte;
                if let Ok(out) = decompress(codec, &packed, 1 << 16) {
                    prop_assert!(out.len() <= 1 << 16);
                }
            }
        }
    }
}
