declare function vegaEmbed(target: HTMLElement, spec: any, options: any): Promise<{ view: any }>;
