/* What the programs of these tests share. */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "weft.h"

#define EXPECT(condition)                                                                    \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition,               \
                    weft_last_message());                                                    \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

#define OK(call) EXPECT((call) == 0)

#endif
