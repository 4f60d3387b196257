/** Components that are drawn again only when one of their properties is another one. */
import { Component, type ComponentChildren, type FunctionComponent, h } from 'preact';

export function memo<P extends object>(draw: (props: P) => ComponentChildren): FunctionComponent<P> {
  class Same extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const before: object = this.props;
      const names = Object.keys(next);
      return (
        names.length !== Object.keys(before).length ||
        names.some((name) => Reflect.get(before, name) !== Reflect.get(next, name))
      );
    }

    override render(props: P): ComponentChildren {
      return draw(props);
    }
  }
  return (props: P) => h(Same, props);
}
