// SPDX-License-Identifier: MIT
//
// Chat turns as tokens. One form is known, ChatML, recognised by the marks in the file's chat
// template; a template itself is never run.
//
//   <|im_start|>role\n text <|im_end|>\n
#ifndef LLAMA_CHAT_H
#define LLAMA_CHAT_H

#include "tokenizer.h"

struct chat {
    int32_t start, end;  // the ids of <|im_start|> and <|im_end|>
    struct bytes system; // the system text that the template uses by default; may be empty
};

// Whether the file's chat template is ChatML and the vocabulary has its marks; then *c is filled.
// False with err set tells why not: no template, another one, or no memory.
bool chat_detect(struct chat *c, const struct gguf *g, const struct tokenizer *t, struct err *err);
void chat_free(struct chat *c);

// Appends a whole turn. Marks inside `text` stay text.
bool chat_turn(const struct chat *c, struct tokenizer *t, const char *role, const char *text, size_t n, struct ids *out,
               struct err *err);

// Appends the beginning of the assistant's turn.
bool chat_open_answer(const struct chat *c, struct tokenizer *t, struct ids *out, struct err *err);

// Appends what closes the assistant's turn; `ended` tells that the model wrote the end mark itself
// and that it is in the context already.
bool chat_close_answer(const struct chat *c, struct tokenizer *t, bool ended, struct ids *out, struct err *err);

#endif
