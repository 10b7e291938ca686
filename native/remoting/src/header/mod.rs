//! The two header encodings. Every peer reads either by the frame's encoding byte; we answer in the
//! encoding that was asked in (C++ reads only JSON).

mod binary;
mod json;

use crate::frame::Frame;
use crate::{Command, Encoding, FrameError};

/// Decodes a frame's header and joins it with the body.
///
/// # Errors
/// The header does not parse.
pub fn decode(frame: Frame) -> Result<Command, FrameError> {
    let Frame {
        encoding,
        header,
        body,
    } = frame;
    let mut command = match encoding {
        Encoding::Json => json::decode(header)?,
        Encoding::Binary => binary::decode(&header)?,
    };
    command.encoding = encoding;
    command.body = body;
    Ok(command)
}

/// Room for the length word and the header word.
const PREFIX: usize = 8;
/// Room made for a header at first, in bytes: an answer's fits.
const HEADER_START: usize = 512;
/// Longest header that the header word can name, in bytes.
const HEADER_MAX: usize = (1 << 24) - 1;

/// Appends length, header word and header to `out`; the body must follow. What is longer than a frame
/// can be (a header of 16 MiB) is cut down to code and opaque, so that the peer gets an answer.
pub fn encode(command: &Command, out: &mut Vec<u8>) {
    let start = out.len();
    out.reserve(HEADER_START);
    out.extend_from_slice(&[0; PREFIX]);
    match command.encoding {
        Encoding::Json => json::encode(command, out),
        Encoding::Binary => binary::encode(command, out),
    }
    let mut header_len = out.len() - start - PREFIX;
    if header_len > HEADER_MAX {
        tracing::warn!(
            code = command.code,
            header_len,
            "a header too long for a frame was left empty"
        );
        let bare = Command {
            code: command.code,
            version: command.version,
            opaque: command.opaque,
            flag: command.flag,
            ..Command::default()
        };
        out.truncate(start + PREFIX);
        json::encode(&bare, out);
        header_len = out.len() - start - PREFIX;
    }
    let kind = match command.encoding {
        Encoding::Binary if header_len <= HEADER_MAX => 1u32 << 24,
        _ => 0,
    };
    let word = kind | u32::try_from(header_len).unwrap_or(0);
    let total = u32::try_from(4 + header_len + command.body_len()).unwrap_or(u32::MAX);
    if let Some(prefix) = out.get_mut(start..start + PREFIX) {
        prefix[..4].copy_from_slice(&total.to_be_bytes());
        prefix[4..].copy_from_slice(&word.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
