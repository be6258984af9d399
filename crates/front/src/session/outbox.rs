//! Replies that wait to be sent, as a gather list.

use crate::wire::ReplyHead;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::io::IoSlice;
use stria_block::{Buffer, Segments};

/// The part behind the head of a reply.
#[derive(Debug)]
pub enum Body {
    None,
    /// Data that was read, sent from the device's buffer.
    Buffers(Segments<Buffer>),
    /// Extents, or the text of an error.
    Bytes(Vec<u8>),
}

/// One reply.
#[derive(Debug)]
pub struct Reply {
    pub head: ReplyHead,
    pub body: Body,
    /// The bytes with which the request is charged until the reply is sent.
    pub charge_bytes: usize,
}

impl Reply {
    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let (buffers, bytes): (&[Buffer], &[u8]) = match &self.body {
            Body::None => (&[], &[]),
            Body::Buffers(buffers) => (buffers, &[]),
            Body::Bytes(bytes) => (&[], bytes),
        };
        let body = buffers.iter().map(|buffer| &**buffer).chain(std::iter::once(bytes));
        std::iter::once(self.head.as_bytes()).chain(body).filter(|part| !part.is_empty())
    }
}

/// Replies in the order in which they are sent.
#[derive(Debug, Default)]
pub struct Outbox {
    replies: VecDeque<Reply>,
    /// How much of the first reply is sent.
    sent: usize,
}

impl Outbox {
    pub fn push(&mut self, reply: Reply) {
        self.replies.push_back(reply);
    }

    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// Fills `slices`, up to its inline size, with the bytes to send next.
    pub fn slices<'a, const N: usize>(&'a self, slices: &mut SmallVec<[IoSlice<'a>; N]>) {
        let mut skip = self.sent;
        for part in self.replies.iter().flat_map(Reply::parts) {
            if slices.len() == N {
                return;
            }
            if skip >= part.len() {
                skip -= part.len();
            } else {
                slices.push(IoSlice::new(&part[skip..]));
                skip = 0;
            }
        }
    }

    /// Removes the first reply if `len` bytes, which are now sent, complete it, and subtracts its part from `len`.
    pub fn sent(&mut self, len: &mut usize) -> Option<Reply> {
        let left = self.replies.front()?.parts().map(<[u8]>::len).sum::<usize>() - self.sent;
        if *len < left {
            self.sent += *len;
            *len = 0;
            return None;
        }
        *len -= left;
        self.sent = 0;
        self.replies.pop_front()
    }
}
