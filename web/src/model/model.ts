/** The page's data, and what of it the state leaves: worked out once a change, for all parts of the page. */

import { mergeFrames, type Functions } from "./functions.ts";
import type { Payload } from "../payload/payload.ts";
import { Scope } from "./scope.ts";
import { readSeries, type Series } from "./series.ts";
import type { State, Store } from "./state.ts";

const SCOPING: readonly (keyof State)[] = ["range", "thread", "module", "only"];

export class Model {
  readonly functions: Functions;
  readonly series: Series;
  private readonly followers: ((scope: Scope) => void)[] = [];
  private current: Scope;

  constructor(
    readonly payload: Payload,
    readonly store: Store,
  ) {
    this.functions = mergeFrames(payload.frames);
    this.series = readSeries(payload.series, payload.stacks);
    this.current = this.scopeOf(store.state);
    // The first to follow the store: who follows it later finds the scope of the same state.
    store.follow((state, changed) => {
      if (SCOPING.some((key) => changed.has(key))) {
        this.current = this.scopeOf(state);
        for (const follower of this.followers) {
          follower(this.current);
        }
      }
    });
  }

  get scope(): Scope {
    return this.current;
  }

  /** Calls the follower with every new scope, and at once with the present one. */
  follow(follower: (scope: Scope) => void): void {
    this.followers.push(follower);
    follower(this.current);
  }

  private scopeOf(state: State): Scope {
    return new Scope(this.payload, this.series, this.functions, state);
  }
}
